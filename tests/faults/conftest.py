"""A command line that can be killed."""

import pytest
from tools.commands import Commands


@pytest.fixture(scope="session")
def commands(tmp_path_factory):
    commands = Commands(tmp_path_factory.mktemp("commands"))
    yield commands
    commands.close()


@pytest.fixture(autouse=True)
def _own_cache(own_cache):
    pass
