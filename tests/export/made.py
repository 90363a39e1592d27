"""Runs of untrained models: what an export needs of a run, without a training."""

from dataclasses import replace
from unittest import mock

from recollect import tasks
from recollect.core.task import LoadedRun
from recollect.training import checkpoint, config_file
from recollect.training import run as runs
from recollect.training.folder import RunFolder
from tasks import cases


def make(place, files, name, label=None, **settings):
    """The run of an untrained model in the folder `place`, on the small data of `cases` in `files`."""
    kind, small = tasks.find(name), cases.SMALL[name]
    added = replace(small, models=dict(small.models) | ({} if label in (None, *small.models) else {label: {}}))
    with mock.patch.dict(cases.SMALL, {name: added}):
        config = cases.configure(files, name, label, **settings)
    data = kind.load_data(config.data, None)
    config = kind.resolve(config, data, None)
    artifacts = kind.artifacts_of(data)
    model = runs.initial_model(kind, config, artifacts, None)
    content = config_file.to_json(kind, config) | {"corpus": kind.describe_data(data), "init": None}
    with RunFolder.created(str(place / "run"), content) as folder:
        kind.save_artifacts(artifacts, folder.path)
        checkpoint.write_tensors(folder.model_path, checkpoint.weights(model), {})
    return LoadedRun(folder.path, kind, config, model.eval(), artifacts)
