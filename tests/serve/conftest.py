"""One service for all tests: demos that ship with the package, and untrained runs of what has none."""

import copy

import pytest

import recollect
from export import made
from recollect.serve.app import Service
from recollect.serve.batches import Batcher
from recollect.serve.limits import Limits
from recollect.serve.sessions import Store
from recollect.serve.worker import Worker
from serve.asgi import HOST, TOKEN, Client
from tasks import cases

DEMOS = ("demo-text", "demo-translation", "demo-series", "demo-captions")
POSITIONS = 300  # of the small Transformer


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Runs by their folders: a Transformer whose positions end, a classifier, ratings."""
    place = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECOLLECT_CACHE", str(place / "cache"))
        cases.write_data(place)
        small = {"width": 16, "layers": 2, "heads": 2, "positions": "learned", "max_positions": POSITIONS}
        for name, task, label, settings in (
            ("small-transformer", "text", "transformer", small),
            ("small-labels", "labels", "gru", {}),
            ("small-ratings", "ratings", "dot", {}),
        ):
            made.make(place / task, place, task, label, **settings).path.rename(place / name)
    return place


@pytest.fixture(scope="session")
def service(runs):
    """All of them, ready for requests."""
    found = Service([*DEMOS, *(str(runs / name) for name in ("small-transformer", "small-labels", "small-ratings"))])
    yield found
    assert found.close()


@pytest.fixture
def limited(service):
    """The same models under other limits."""
    made_here = []

    def make(**changes):
        limits = Limits(**changes)
        own = copy.copy(service)
        own.limits, own.models, own.worker = limits, copy.copy(service.models), Worker(limits)
        own.models.by_name = {}
        for name, served in service.models.by_name.items():
            mine = copy.copy(served)
            if served.batcher is not None:
                mine.batcher = Batcher(served.model, limits)
                mine.longest = min(limits.tokens, served.model.limit or limits.tokens)
            own.models.by_name[name] = mine
        own.store = Store(own.models, limits)
        made_here.append(own)
        return own

    yield make
    for own in made_here:
        own.close()


def client_of(service, **options):
    return Client(service.application(hosts=frozenset({HOST}), token=TOKEN, **options))


@pytest.fixture
def client(service):
    return client_of(service)


@pytest.fixture(scope="session")
def alone():
    """What a model writes alone, by the package's own call."""
    text = recollect.load("demo-text")

    def write(prompt, length, model=text, **options):
        return "".join(model.generate(prompt or (), length=length, **options))[len(prompt) :]

    return write
