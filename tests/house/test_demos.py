"""The small runs that come with the package: all are there, small, and do what the pages say of them."""

import json
import re

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw
from recipes.demos import LANES, RECIPES, STEPPED

import recollect
from recollect.data.known import KNOWN
from recollect.layers import LINEAGE
from recollect.models.body import KINDS
from recollect.tasks.captions.images import box_coverage
from recollect.tasks.captions.scenes import SHAPES
from recollect.training.folder import SHIPPED, shipped
from shared_data import DATA

LARGEST = 8_000_000  # bytes of one of them
TOGETHER = 12_000_000
NAMES = (*(f"demo-{name}" for name in RECIPES), *(f"lane-{model}" for model in LANES))
DRAWN = {  # names of colours in style sheets, in an office suite and in a plotting library
    "red": ("#ff0000", "#c00000", "#d62728"),
    "green": ("#008000", "#00b050", "#2ca02c"),
    "blue": ("#0000ff", "#0070c0", "#1f77b4"),
    "yellow": ("#ffff00", "#ffc000", "#ffd700"),
    "purple": ("#800080", "#7030a0", "#9467bd"),
    "orange": ("#ffa500", "#ed7d31", "#ff7f0e"),
}
GROUNDS = ("#ffffff", "#000000", "#d9d9d9", "#808080", "#f5f0e0")
UNSEEN = {("red", "square"), ("green", "circle"), ("blue", "triangle"), ("yellow", "cross"), ("purple", "diamond")}
SIDE, PIXELS = 240, 48
SPEAKERS = ("george", "jackson", "lucas", "nicolas", "theo", "yweweler")


def test_every_recipe_of_a_small_run_has_its_run():
    assert shipped() == sorted(NAMES)


def test_all_of_them_together_are_small():
    assert sum(path.stat().st_size for path in SHIPPED.rglob("*") if path.is_file()) < TOGETHER


def test_there_is_a_lane_of_every_layer_of_the_lineage_that_reads_its_input_alone():
    layers = {KINDS[name].layer for name in LANES if name in KINDS} - {"tcn-block"} | {"conv"}
    assert layers == set(LINEAGE) - {"soft-align", "cross-attention"}


def test_lanes_are_of_one_size_read_one_text_and_know_its_letters():
    """Each finds a line of Shakespeare likelier than its letters mixed; counts are told apart from parameters."""
    line = "Now, my lord, what say you to the king?"
    mixed = "".join(np.random.default_rng(0).permutation(list(line)))
    for name in LANES:
        model = recollect.load(f"lane-{name}", engine="torch")
        params = sum(parameter.numel() for parameter in model.module.parameters())
        assert params == 0 if name == "ngram" else abs(params / 42_000 - 1) < 0.05, name
        assert model.tokenizer.kind == "chars"
        assert model.score(line).nats_per_token < model.score(mixed).nats_per_token - 0.5, name
        if name == "ngram":
            shares = model.module(torch.tensor([[20, 30, 40]]))[0].exp().sum(-1)
            assert torch.allclose(shares, torch.ones(1, 3), atol=5e-3)  # of tables in 16 bits


@pytest.mark.parametrize("name", NAMES)
def test_a_small_run_is_small_and_holds_weights_and_no_data(name):
    place = SHIPPED / name
    files = {path.relative_to(place).as_posix(): path.stat().st_size for path in place.rglob("*") if path.is_file()}
    assert sum(files.values()) < LARGEST
    known = {"config.json", "manifest.json", "data.json", "tokenizer.json", "scaler.json", "labels.json", "names.json"}
    assert set(files) <= known | {"model.safetensors", "step/manifest.json", "step/step.onnx"}
    assert ("step/step.onnx" in files) == (name.removeprefix("demo-") in STEPPED)
    assert json.loads((place / "config.json").read_text()).get("data_dir") is None
    assert "/" not in "".join(json.loads((place / "config.json").read_text())["data"]["data"])


def test_the_poet_writes_couplets_of_equal_lines_and_prefers_a_poem_to_its_characters_mixed():
    model = recollect.load("demo-tang")
    text = "".join(model.generate("春風", length=240, seed=2, temperature=0.8))
    couplets = re.findall(r"([^\s：，。]+)，([^\s：，。]+)。", text)
    assert len(couplets) > 10
    assert sum(len(first) == len(second) for first, second in couplets) > 0.8 * len(couplets)
    poem = "靜夜思：床前明月光，疑是地上霜。舉頭望明月，低頭思故鄉。"
    mixed = "".join(np.random.default_rng(0).permutation(list(poem)))
    assert model.score(poem).nats_per_token < model.score(mixed).nats_per_token - 0.5


def test_short_english_sentences_become_chinese_character_by_character():
    model = recollect.load("demo-translation-zh")
    sentences = {
        "I love you.": "爱愛",
        "Where is the station?": "站",
        "What time is it now?": "几幾",
        "He is a teacher.": "老",
    }
    for (source, needed), found in zip(
        sentences.items(), model.translate(list(sentences), alignments=True), strict=True
    ):
        assert set(str(found)) & set(needed), source
        assert all(len(token) == 1 for token in found.target_tokens if token != "<end>"), found.target_tokens
        assert found.alignment.shape == (len(found.target_tokens), len(found.source_tokens))


def drawings(count):
    """Pictures as somebody else draws them, without noise, with what is true of each and the box of each thing."""
    draw = np.random.default_rng(7)

    def choose(some):
        return list(some)[int(draw.integers(len(some)))]

    while count:
        things = [(choose(("small", "large")), choose(DRAWN), choose(SHAPES)) for _ in range(2)]
        if things[0] == things[1] or any(thing[1:] in UNSEEN for thing in things):
            continue
        axis, boxes = int(draw.integers(2)), []
        image = Image.new("RGB", (SIDE, SIDE), choose(GROUNDS))
        for place, (size, colour, shape) in zip((0.26, 0.74), things, strict=True):
            r = SIDE * (0.115 if size == "small" else 0.19)
            centre = (SIDE * place, SIDE * (0.5 + draw.uniform(-0.1, 0.1)))
            x, y = centre if axis == 0 else centre[::-1]
            paint(ImageDraw.Draw(image), shape, x, y, r, choose(DRAWN[colour]))
            boxes.append([PIXELS * side / SIDE for side in (x - r, y - r, x + r, y + r)])
        words = [" ".join(thing) for thing in things]
        there, back = (("left of", "right of"), ("above", "below"))[axis]
        captions = [f"a {words[0]} {there} a {words[1]}", f"a {words[1]} {back} a {words[0]}"]
        yield np.asarray(image.resize((PIXELS, PIXELS))), captions, things, boxes
        count -= 1


def paint(page, shape, x, y, r, colour):
    if shape == "circle":
        page.ellipse((x - r, y - r, x + r, y + r), fill=colour)
    elif shape == "square":
        page.rectangle((x - 0.85 * r, y - 0.85 * r, x + 0.85 * r, y + 0.85 * r), fill=colour)
    elif shape == "triangle":
        page.polygon([(x, y - r), (x + r, y + 0.85 * r), (x - r, y + 0.85 * r)], fill=colour)
    elif shape == "diamond":
        page.polygon([(x, y - r), (x + r, y), (x, y + r), (x - r, y)], fill=colour)
    else:
        page.rectangle((x - r, y - r / 3, x + r, y + r / 3), fill=colour)
        page.rectangle((x - r / 3, y - r, x + r / 3, y + r), fill=colour)


def test_pictures_drawn_by_others_are_described_and_the_thing_that_a_word_names_is_looked_at():
    model = recollect.load("demo-captions")
    right, looks = [], {"size": [], "colour": [], "shape": []}
    for image, captions, things, boxes in drawings(60):
        found = model.caption(image, gaze=True)
        right.append(found.text in captions)
        if not right[-1]:
            continue
        order = things if found.text == captions[0] else things[::-1]
        areas = boxes if found.text == captions[0] else boxes[::-1]
        for number, (thing, area) in enumerate(zip(order, areas, strict=True)):
            first = [place for place, word in enumerate(found.words) if word == "a"][number] + 1
            assert list(found.words[first : first + 3]) == list(thing)
            for kind, gaze in zip(looks, found.gaze[first : first + 3], strict=True):
                inside = (
                    box_coverage(box, gaze.shape, PIXELS).reshape(gaze.shape) > 0 for box in (area, areas[1 - number])
                )
                looks[kind].append([gaze[cells].sum() for cells in inside])
    assert np.mean(right) > 0.75
    for kind, (least, most) in {"size": (0.4, 0.1), "colour": (0.9, 0.05), "shape": (0.9, 0.05)}.items():
        own, other = np.mean(looks[kind], axis=0)
        assert own > least, kind
        assert other < most, f"{kind} of one thing lights the other"


def test_spoken_digits_are_told_apart():
    model = recollect.load("demo-speech")
    assert model.labels == tuple("0123456789")
    folder = DATA / KNOWN["fsdd"].folder
    if not folder.is_dir():
        pytest.skip("fsdd is not here")
    paths = [folder / f"{digit}_{speaker}_{take}.wav" for digit in range(10) for speaker in SPEAKERS for take in (0, 3)]
    found = [answer.label for answer in model.classify(paths)]
    assert np.mean([label == path.name[0] for label, path in zip(found, paths, strict=True)]) >= 0.95


def test_opinions_are_told_by_the_order_of_their_words():
    model = recollect.load("demo-opinions")
    found = model.evaluate("test")
    assert found["accuracy"] > 0.98
    assert found["baseline_accuracy"]["bag of words"] < 0.75
    for text, label in (
        ("the film was not bad", "positive"),
        ("the food was great but the service was awful", "negative"),
    ):
        assert model.classify(text).label == label


def test_generated_ratings_are_foreseen_better_than_by_biases():
    found = recollect.load("demo-ratings").evaluate("test")
    assert found["rmse"] < 0.5 * found["baselines"]["biases"]
