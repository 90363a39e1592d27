"""Labelled images as sequences of pixels or rows, from pairs of IDX files."""

from pathlib import Path

import numpy as np

from ...data.files import DataError
from .idx import read_idx
from .labelled import Artifacts, Labelled, Part, StepName, assemble

HELD = 12  # one image in so many, the last ones of the training part, is for validation: 5,000 of MNIST's 60,000


def read_images(
    name: str, paths: dict[str, list[Path]], step: StepName, permute: int | None, artifacts: Artifacts | None
) -> Labelled:
    """The images of IDX files by split; with `artifacts`, in the layout and classes of that run."""
    read: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for split, (pictures, answers) in paths.items():
        images, labels = read_idx(pictures, 3), read_idx(answers, 1)
        if len(images) != len(labels):
            raise DataError(
                f"expected a label for each of {len(images):,} images of {pictures}, found {len(labels):,} in {answers}"
            )
        read[split] = images, labels
    images, labels = read["train"]
    held = len(images) // HELD
    if not held:
        raise DataError(f"expected at least {HELD} images to train on, found {len(images)} in {paths['train'][0]}")
    shape = images.shape[1], images.shape[2]
    if artifacts is None:
        count = int(labels[:-held].max()) + 1
        if len(np.unique(labels[:-held])) < 2:
            raise DataError(f"expected at least two labels to tell apart, found one in {paths['train'][1]}")
        artifacts = Artifacts(classes=tuple(map(str, range(count))), shape=shape, step=step, permute=permute)
    if artifacts.shape != shape or read["test"][0].shape[1:] != shape:
        wanted = "texts" if artifacts.shape is None else f"images of {artifacts.shape[0]} × {artifacts.shape[1]}"
        found = sorted({f"{i.shape[1]} × {i.shape[2]}" for i, _ in read.values()})
        raise DataError(f"expected {wanted}, found images of {' and '.join(found)} in {paths['train'][0].parent}")
    parts: dict[str, Part] = {}
    for split, (pictures, answers), path in (
        ("train", (images[:-held], labels[:-held]), paths["train"][1]),
        ("valid", (images[-held:], labels[-held:]), paths["train"][1]),
        ("test", read["test"], paths["test"][1]),
    ):
        if int(answers.max()) >= len(artifacts.classes):
            at = int((answers >= len(artifacts.classes)).argmax())
            raise DataError(
                f"expected labels from 0 to {len(artifacts.classes) - 1} as training has, found {answers[at]} for "
                f"image {at:,} of the {split} part, in {path}"
            )
        values = artifacts.lay_out(pictures)
        lengths = np.full(len(values), values.shape[1], np.int32)
        parts[split] = Part(values, lengths, answers.astype(np.int32))
    notes = [f"validation: the last {held:,} of {len(images):,} training images"]
    return assemble(name, artifacts, parts, notes)
