"""Settings of data beyond all sense are refused with their limit, before anything is read or drawn."""

import pytest

from recollect.core.limits import TooLarge
from recollect.data.errors import DataError
from recollect.tasks.captions import data as pictures
from recollect.tasks.captions.settings import DataConfig as CaptionsData
from recollect.tasks.labels.settings import DataConfig as LabelsData
from recollect.tasks.memory.data import Copy, Gap, Parity, Recall
from recollect.tasks.memory.settings import Config as Memory
from recollect.tasks.ratings.generated import generate
from recollect.tasks.ratings.settings import DataConfig as RatingsData
from recollect.tasks.series.settings import Config as Series
from recollect.tasks.series.settings import DataConfig as SeriesData
from recollect.tasks.text.settings import DataConfig as TextData
from recollect.tasks.translation.settings import Config as Translation
from recollect.tasks.translation.settings import DataConfig as TranslationData

HUGE = 10**12
SETTINGS = [
    *((kind, "vocab") for kind in (TextData, LabelsData, TranslationData)),
    *((TranslationData, name) for name in ("chain", "count")),
    *((Translation, name) for name in ("grain", "beam", "extra")),
    *((Series, name) for name in ("lookback", "horizon")),
    (SeriesData, "period"),
    (CaptionsData, "count"),
    *((RatingsData, name) for name in ("users", "items", "ratings", "rank")),
    *((Copy, name) for name in ("distance", "load", "reach")),
    *((Recall, name) for name in ("length", "load", "vocab")),
    (Parity, "length"),
    (Gap, "distance"),
    (Memory, "eval_rows"),
]


@pytest.mark.parametrize(("kind", "name"), SETTINGS, ids=lambda value: getattr(value, "__module__", value))
@pytest.mark.parametrize("value", [HUGE, 10**30])
def test_an_absurd_size_is_refused_with_the_largest(kind, name, value):
    with pytest.raises(ValueError, match=rf"expected {name} to be a whole number of at most [\d,]+, found 10+"):
        kind(**{name: value})


@pytest.mark.parametrize("kind", [TextData, LabelsData, TranslationData, RatingsData, SeriesData, CaptionsData])
@pytest.mark.parametrize("name", ["data", "valid"])
def test_an_empty_name_is_no_file(kind, name):
    """Where it meant the current folder, or the default set."""
    if name == "valid" and kind in (SeriesData, CaptionsData):
        name = "data"
    with pytest.raises(ValueError, match=f"expected names of files in {name}, found an empty one"):
        kind(**{name: ("",)})


def test_ratings_that_cannot_fit_are_refused_with_their_size():
    config = RatingsData(users=10**6, items=10**6, ratings=10**9, rank=10**5)
    with pytest.raises(TooLarge, match=r"rank 100,000: expected at most the .* of memory that are free, found 802.TB"):
        generate(config)


@pytest.mark.parametrize("name", ["noise", "spread", "true_bias"])
@pytest.mark.parametrize("value", [float("inf"), float("nan"), 1e300, -1.0])
def test_ratings_have_a_finite_spread(name, value):
    with pytest.raises(ValueError, match=f"expected {name} of at least 0 and at most 1,000,000"):
        RatingsData(**{name: value})


@pytest.mark.parametrize(("count", "pixels"), [(10**6, 96), (10**5, 1024)])
def test_scenes_that_would_fill_a_disk_are_refused_with_their_size(tmp_path, count, pixels):
    with pytest.raises(DataError, match=r"expected scenes of at most 16.0.GB, found 3\d.*.[GT]B of count=.* lower one"):
        pictures.load(count=count, pixels=pixels, cache=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_rows_of_a_test_of_memory_that_cannot_fit_are_refused_with_their_size():
    with pytest.raises(
        TooLarge, match=r"copy: 1,000,000,000,000 rows of 40 steps: expected at most .* lower the batch"
    ):
        Copy().batch("train", 0, 0, HUGE)


@pytest.mark.parametrize("power", [float("nan"), float("inf"), 1e300, 0.0])
def test_the_weights_of_slots_are_finite(power):
    with pytest.raises(ValueError, match="recall: expected power above 0 and at most 100"):
        Recall(power=power)
