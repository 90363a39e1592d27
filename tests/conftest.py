"""Settings that every test runs under."""

import os

import hypothesis
import pytest
import torch

hypothesis.settings.register_profile(
    "house",
    deadline=None,
    derandomize=True,
    max_examples=8,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
)
hypothesis.settings.register_profile("deep", parent=hypothesis.settings.get_profile("house"), max_examples=200)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "house"))


@pytest.fixture(autouse=True)
def _same_start():
    """One thread a worker and one seed a test, so that a failure repeats."""
    torch.set_num_threads(1)
    torch.manual_seed(0)


def pytest_collection_modifyitems(items):
    if torch.cuda.is_available():
        return
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
