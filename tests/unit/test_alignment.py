"""Where a translation came from: weights that add up, words by hand, influence by its definition, maps as drawn."""

import re
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from recollect.core.contract import ContractError, Memory
from recollect.data.moses import Preparation
from recollect.data.tokenizers import Bpe, Bytes, Chars, Words
from recollect.data.tokenizers.sentences import SentenceTokenizer
from recollect.decode import beam, pharaoh, translate
from recollect.decode.beam import Hypothesis
from recollect.models import seq2seq
from recollect.report import alignment as drawing
from recollect.report.drawing import figure
from recollect.tasks.translation.instruments import align, source_influence

TEXT = "the cat sees a dog\n"
SOURCE = SentenceTokenizer(Preparation("en"), Words.train([TEXT]))
TARGET = SentenceTokenizer(Preparation("fr"), Words.train(["le chat voit un chien là\n"]))
ATTENDING = {
    "attend": {"model": "attend"},
    "attend, cell first": {"model": "attend", "align": "cell-first", "score": "dot"},
    "conv": {"model": "conv", "layers": 2},
    "transformer": {"model": "transformer", "layers": 2, "heads": 4},
}
OTHERS = {"fixed": {"model": "fixed"}, "context": {"model": "context", "gist": "mean"}}
attending = pytest.mark.parametrize("kind", ATTENDING)
every_kind = pytest.mark.parametrize("kind", [*ATTENDING, *OTHERS])


def build(kind, seed=0):
    """A random model that has something to say, in float64."""
    torch.manual_seed(seed)
    given = {"source": SOURCE.size, "target": TARGET.size, "width": 8, "dropout": 0.0}
    model = seq2seq.Config(**given | (ATTENDING | OTHERS)[kind]).build().double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.mul_(2)
    return model


def used(model):
    """A run that was never on disk."""
    return SimpleNamespace(model=model, artifacts=(SOURCE, TARGET))


def written(text):
    return Hypothesis(TARGET.encode(text).tolist(), 0.0, 0.0, True)


# ------------------------------------------------------------------------------------------------ where it looked


@attending
def test_the_looks_of_a_model_are_those_that_its_search_kept(kind):
    model = build(kind)
    rows = [SOURCE.encode(text) for text in ("the cat sees", "a dog", "sees a dog sees the cat")]
    lists = translate.hypotheses(model, SOURCE, TARGET, rows, beam.Config(beam=3, nbest=2, extra=3), alignments=True)
    for row, best in zip(rows, lists, strict=True):
        for hypothesis in best:
            memory = translate.encode(model, SOURCE, [row])
            found = translate.looks(model, memory, hypothesis.tokens, TARGET.begin)["mean"]
            assert found.shape == (len(hypothesis.tokens) + 1, len(row) + 1)
            assert torch.allclose(found.sum(dim=1), torch.ones(len(found)))
            kept = torch.tensor(hypothesis.alignment)  # the end is looked for only where it was written
            assert len(kept) == len(hypothesis.tokens) + hypothesis.finished
            torch.testing.assert_close(found[: len(kept)], kept.float(), rtol=1e-5, atol=1e-6)


@attending
def test_every_head_of_every_layer_is_told_apart_and_their_mean_is_the_mean(kind):
    model = build(kind)
    memory = translate.encode(model, SOURCE, [SOURCE.encode("the cat sees a dog")])
    found = translate.looks(model, memory, TARGET.encode("le chat voit").tolist(), TARGET.begin)
    layers = model.config.layers
    heads = 4 if kind == "transformer" else 1
    expected = [f"layer {i} head {j}" for i in range(1, layers + 1) for j in range(1, heads + 1)]
    assert list(found) == [*expected, "mean"]
    for weights in found.values():
        assert torch.allclose(weights.sum(dim=1), torch.ones(4))
    mean = torch.stack([found[name] for name in expected]).mean(dim=0)
    torch.testing.assert_close(found["mean"], mean)
    assert len({str(weights.tolist()) for weights in found.values()}) >= len(expected)


@pytest.mark.parametrize("kind", OTHERS)
def test_a_model_that_never_looks_has_no_looks(kind):
    model = build(kind)
    memory = translate.encode(model, SOURCE, [SOURCE.encode("the cat")])
    assert translate.looks(model, memory, [3, 4], TARGET.begin) == {}


# ------------------------------------------------------------------------------------------------ words


def pieces(tokenizer, text, language="en"):
    """A text's tokens with the word that each is said to belong to."""
    side = SentenceTokenizer(Preparation(language), tokenizer)
    ids = side.encode(text)
    return list(zip(side.pieces(ids), pharaoh.words(side, ids.tolist()), strict=True))


def merged(*merges):
    """Byte-level pairs with exactly these merges; Ġ is a blank."""
    letters = list(Bpe.train(["x"], 256).to_json()["vocabulary"])
    return Bpe([*letters, *("".join(merge) for merge in merges)], list(merges))


def test_words_are_words_between_blanks():
    words = Words.train(["the cat sees\n"])
    assert pieces(words, "the cat  sees it") == [("the", 0), ("cat", 1), ("sees", 2), ("<unk>", 3)]
    assert pieces(words, "cat") == [("cat", 0)]


def test_characters_make_up_words_and_a_blank_belongs_to_the_one_before():
    chars = Chars.train(["ab cd"]).with_unknown()
    assert [word for _, word in pieces(chars, "ab c")] == [0, 0, 0, 1]
    assert [word for _, word in pieces(chars, "abcd")] == [0, 0, 0, 0], "one word is one word"
    assert [word for _, word in pieces(chars, "a  b")] == [0, 0, 0, 1]


def test_pairs_of_bytes_begin_a_word_with_their_blank():
    tokenizer = merged(("c", "a"), ("Ġ", "s"), ("Ġs", "e"))
    assert [word for _, word in pieces(tokenizer, "cat sees")] == [0, 0, 1, 1, 1]
    assert [word for _, word in pieces(tokenizer, "cat")] == [0, 0], "one word is one word, however it is cut"


def test_a_character_of_several_bytes_is_of_one_word():
    assert [word for _, word in pieces(Bytes(), "é à")] == [0, 0, 0, 1, 1]
    assert [word for _, word in pieces(Bytes(), "naïf")] == [0] * 5


def test_each_chinese_token_is_a_word():
    chars = Chars.train(["我喜欢茶。Python "]).with_unknown()
    assert [word for _, word in pieces(chars, "我喜欢茶。", "zh")] == [0, 1, 2, 3, 4]
    assert [word for _, word in pieces(chars, "我喜欢 Pyth", "zh")] == [0, 1, 2, 2, 3, 3, 3, 3]
    assert [word for _, word in pieces(Words.train(["我喜欢喝茶\n"]), "我喝茶", "zh")] == [0, 1, 2]
    assert [word for _, word in pieces(Bytes(), "我茶", "zh")] == [0, 0, 0, 1, 1, 1], "three bytes each"


def test_no_tokens_have_no_words():
    side = SentenceTokenizer(Preparation("en"), Bytes())
    assert pharaoh.words(side, []) == []
    assert pharaoh.words(side, [0x20, 0x20]) == [0, 0]
    assert pharaoh.words(side, [0xE6]) == [0], "a character that never comes is something too"


def test_the_pair_of_a_word_is_where_most_of_its_tokens_weight_went():
    #                          the   c     at    end
    weights = torch.tensor([[0.40, 0.30, 0.25, 0.05],   # le: one token has most, but two make up a word
                            [0.80, 0.10, 0.05, 0.05],   # ch: with the next, 1.0 against 0.75
                            [0.20, 0.30, 0.30, 0.20],   # at
                            [0.00, 0.00, 0.00, 1.00]])  # end  # fmt: skip
    assert pharaoh.pairs(weights, [0, 1, 1], [0, 1, 1]) == [(1, 0), (0, 1)]
    assert pharaoh.pairs(weights, [0, 1, 2], [0, 1, 2]) == [(0, 0), (0, 1), (1, 2)]
    assert pharaoh.pairs(weights, [0, 0, 0], [0, 1, 2]) == [(0, 0), (0, 1), (0, 2)]
    assert pharaoh.line([(0, 0), (2, 1)]) == "0-0 2-1"
    assert pharaoh.pairs(weights, [0], []) == pharaoh.pairs(weights, [], [0]) == []
    assert pharaoh.line([]) == ""


# ------------------------------------------------------------------------------------------------ influence


class Linear(nn.Module):
    """logits[t] = C_t · Σ_s a_s · (embedding of place s): its gradient can be written down."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.shares = torch.tensor([0.0, -1.0, 2.0, 0.5], dtype=torch.float64)
        self.table = torch.randn(9, 3, dtype=torch.float64)
        self.out = torch.randn(5, 7, 3, dtype=torch.float64)  # T V E

    def embed_source(self, source):
        return self.table[source]

    def read_source(self, x, lengths=None):
        return Memory(x, torch.ones(x.shape[:2], dtype=torch.bool))

    def forward(self, x, state=None, memory=None):
        gist = torch.einsum("bse,s->be", memory.values, self.shares)
        return torch.einsum("tve,be->btv", self.out[: x.shape[1]], gist), None


def test_influence_is_the_gradient_that_can_be_written_down():
    """∂ log p(token)/∂ place s = a_s · C_tᵀ(onehot − p): its norm is |a_s| times the same for every s."""
    model = Linear()
    found = source_influence(model, torch.tensor([[1, 4, 2, 8]]), [3, 0, 6], begin=5)
    expected = model.shares.abs() / model.shares.abs().sum()
    torch.testing.assert_close(found, expected.float().expand(3, -1))


@every_kind
def test_influence_is_how_far_a_small_change_of_each_place_goes(kind):
    """Finite differences in every direction of every place, in float64."""
    model = build(kind)
    source = torch.tensor([[*SOURCE.encode("the cat sees").tolist(), SOURCE.end]])
    tokens = [*TARGET.encode("le chat").tolist(), TARGET.end]
    found = source_influence(model, source, tokens, TARGET.begin)
    x, step = torch.tensor([[TARGET.begin, *tokens[:-1]]]), 1e-5

    @torch.no_grad()
    def likely(embedded):
        logits, _ = model(x, memory=model.read_source(embedded))
        return logits[0].log_softmax(-1)[torch.arange(3), torch.tensor(tokens)]

    with torch.no_grad():
        embedded = model.embed_source(source)
        slopes = torch.zeros(3, *embedded.shape[1:], dtype=torch.float64)
        for s in range(embedded.shape[1]):
            for e in range(embedded.shape[2]):
                up, down = embedded.clone(), embedded.clone()
                up[0, s, e] += step
                down[0, s, e] -= step
                slopes[:, s, e] = (likely(up) - likely(down)) / (2 * step)
    norms = slopes.norm(dim=-1)
    torch.testing.assert_close(found, (norms / norms.sum(dim=1, keepdim=True)).float(), rtol=1e-4, atol=1e-6)
    assert torch.allclose(found.sum(dim=1), torch.ones(3))
    assert found.std(dim=1).min() > 1e-3, "places differ"


def test_influence_leaves_no_gradient_behind_and_works_where_none_are_kept():
    model = build("fixed")
    with torch.no_grad():
        source_influence(model, torch.tensor([[2, 3]]), [3, TARGET.end], TARGET.begin)
    assert all(weight.grad is None for weight in model.parameters())


def test_nothing_that_matters_is_no_division_by_nothing():
    model = Linear()
    model.shares.zero_()
    assert not source_influence(model, torch.tensor([[1, 4, 2, 8]]), [3], begin=5).any()


# ------------------------------------------------------------------------------------------------ an alignment


@every_kind
def test_an_alignment_names_its_rows_and_columns_and_its_kind(kind):
    ids = SOURCE.encode("the cat sees")
    found = align(used(build(kind)), ids, written("le là"))
    assert found.source == ["the", "cat", "sees", "<end>"]
    assert found.target == ["le", "là", "<end>"]
    assert found.weights.shape == (3, 4)
    assert torch.allclose(found.weights.sum(dim=1), torch.ones(3))
    many = {"conv": 2, "transformer": 8}
    if kind in OTHERS:
        assert found.kind == "influence of each source token, by gradient"
    else:
        assert found.kind == (f"attention, mean of {many[kind]} heads" if kind in many else "attention")
    expected = [(int(row[:3].argmax()), word) for word, row in enumerate(found.weights[:2])]
    assert found.pairs == expected


def test_a_layer_or_a_head_can_be_chosen():
    model, ids = build("transformer"), SOURCE.encode("the cat sees")
    memory = translate.encode(model, SOURCE, [ids])
    looked = translate.looks(model, memory, written("le chat").tokens, TARGET.begin)

    def chosen(**which):
        return align(used(model), ids, written("le chat"), **which)

    one = chosen(layer=2, head=3)
    torch.testing.assert_close(one.weights, looked["layer 2 head 3"])
    assert one.kind == "attention, layer 2 head 3"
    layer = torch.stack([looked[f"layer 2 head {head}"] for head in range(1, 5)]).mean(dim=0)
    torch.testing.assert_close(chosen(layer=2).weights, layer)
    assert chosen(layer=2).kind == "attention, mean of 4 heads"
    head = torch.stack([looked[f"layer {level} head 1"] for level in (1, 2)]).mean(dim=0)
    torch.testing.assert_close(chosen(head=1).weights, head)
    torch.testing.assert_close(chosen().weights, looked["mean"])


@pytest.mark.parametrize(
    ("kind", "which", "message"),
    [
        ("transformer", {"layer": 3}, "expected one of layer 1 head 1, .*layer 2 head 4, found layer 3;"),
        ("transformer", {"head": 0}, "found head 0;"),
        ("attend", {"layer": 1, "head": 2}, "expected one of layer 1 head 1, found layer 1, head 2"),
        ("fixed", {"layer": 1}, "expected a model with attention for a layer or a head, found one without"),
    ],
)
def test_a_layer_or_head_that_is_not_there_is_refused_in_one_line(kind, which, message):
    with pytest.raises(ContractError, match=message) as caught:
        align(used(build(kind)), SOURCE.encode("the cat"), written("le"), **which)
    assert "\n" not in str(caught.value)


@every_kind
def test_an_empty_translation_came_from_somewhere_too(kind):
    found = align(used(build(kind)), SOURCE.encode("the"), written(""))
    assert found.weights.shape == (1, 2)
    assert found.pairs == []


# ------------------------------------------------------------------------------------------------ maps

WEIGHTS = [[0.1, 0.7, 0.2], [0.9, 0.05, 0.05]]


@pytest.mark.parametrize(
    ("end", "magic"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF"), (".PNG", b"\x89PNG")]
)
def test_a_map_is_drawn_in_every_format(tmp_path, end, magic):
    path = tmp_path / f"map{end}"
    drawing.draw(WEIGHTS, ["the", "cat", "<end>"], ["là", "<end>"], str(path), "attention")
    assert path.read_bytes().startswith(magic)


def test_a_map_in_svg_holds_its_words_as_text(tmp_path):
    path = tmp_path / "map.svg"
    drawing.draw(WEIGHTS, ["naïve", "Straße", "<end>"], ["œuvre", "Łódź"], str(path), "attention, layer 2 head 1")
    found = re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text("utf-8"))
    assert found == ["naïve", "Straße", "&lt;end&gt;", "attention, layer 2 head 1", "œuvre", "Łódź"]


def test_a_word_with_dollars_is_no_formula(tmp_path):
    path = tmp_path / "map.svg"
    drawing.draw(WEIGHTS, ["$5-$6", "$\\frac$", "a_b"], ["$$", "%"], str(path))
    found = re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text("utf-8"))
    assert found == ["$5-$6", "$\\frac$", "a_b", "$$", "%"]


def test_the_darkest_cell_is_the_one_that_counts_most(tmp_path):
    from PIL import Image

    path = tmp_path / "map.png"
    drawing.draw([[0.0, 1.0], [0.5, 0.0]], ["a", "b"], ["c", "d"], str(path))
    grey = np.asarray(Image.open(path).convert("L"), dtype=int)
    values, counts = np.unique(grey, return_counts=True)
    large = {int(value): int(count) for value, count in zip(values, counts, strict=True) if count > 1000}
    assert min(large) < 10, "all of it is black"
    assert any(100 < value < 160 for value in large), "half of it is grey"
    half = grey.shape[1] // 2
    assert np.argwhere(grey < 10)[:, 1].mean() > half, "and the black cell stands in the second column"


def test_a_long_sentence_is_drawn_without_a_picture_that_fills_the_memory(tmp_path):
    from PIL import Image

    path = tmp_path / "map.png"
    drawing.draw([[1 / 150] * 150], ["w"] * 150, ["x"], str(path))
    with Image.open(path) as picture:
        assert max(picture.size) <= figure.LARGEST + 1
        assert max(picture.size) > 5000


@pytest.mark.parametrize("name", ["map", "map.gif", "map.png.txt", ""])
def test_a_name_that_says_no_format_is_refused(name):
    with pytest.raises(figure.FigureError, match=r"expected a figure that ends in \.png, \.svg, \.pdf"):
        figure.check_path(name)


@pytest.mark.parametrize(
    ("text", "package"),
    [
        ("我喜欢", "fonts-noto-cjk"),
        ("한국", "fonts-noto-cjk"),
        ("𠀋", "fonts-noto-cjk"),
        ("🐈", "fonts-symbola"),
        ("ᚠ", "fonts-noto"),
    ],
)
def test_glyphs_that_no_font_has_are_told_with_the_package_that_has_them(monkeypatch, tmp_path, text, package):
    """On a machine with matplotlib's own fonts alone, and none of those with these glyphs."""
    import matplotlib

    own = matplotlib.get_data_path() + "/fonts/ttf/cmr10.ttf"
    monkeypatch.setattr(figure, "installed", lambda: [("cmr10", own)])
    with pytest.raises(
        figure.FigureError, match=rf"found none on this machine; .*apt-get install {package}\)"
    ) as caught:
        drawing.draw(WEIGHTS, ["the", text, "<end>"], ["a", "b"], str(tmp_path / "map.png"))
    assert text[0] in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "map.png").exists()


def test_the_font_of_last_resort_counts_for_nothing():
    """It claims every glyph and draws a box for each."""
    assert not [name for name, _ in figure.installed() if "Last Resort" in name]
    assert "DejaVu Sans" in figure.families(["naïve Łódź"])
    nobody = "\U000f1234"  # a place that is free for private use
    with pytest.raises(figure.FigureError, match="expected a font with the glyphs"):
        figure.families([nobody])


def test_a_font_that_came_after_matplotlib_made_its_list_is_found(monkeypatch):
    """Its list is kept in a file: who installs the package as told would be told again."""
    from matplotlib import font_manager

    manager = font_manager.fontManager
    path = next(font.fname for font in manager.ttflist if font.name == "DejaVu Serif")
    monkeypatch.setattr(manager, "ttflist", [font for font in manager.ttflist if font.name != "DejaVu Serif"])
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [path])
    figure.installed.cache_clear()
    try:
        assert ("DejaVu Serif", path) in figure.installed()
    finally:
        figure.installed.cache_clear()


@pytest.mark.parametrize("end", [".png", ".svg"])
def test_chinese_is_drawn_and_not_boxed(tmp_path, end):
    if not any("CJK" in name for name, _ in figure.installed()):
        pytest.skip("no font with Chinese on this machine (Debian: fonts-noto-cjk)")
    path = tmp_path / f"map{end}"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib warns of every glyph that it lacks
        drawing.draw(WEIGHTS, ["我", "喜欢", "茶。"], ["J'aime", "thé"], str(path))
    names = figure.families(["我喜欢茶。thé"])
    assert names[0] == "DejaVu Sans"
    assert "CJK" in names[1]
    if end == ".svg":
        assert ">喜欢<" in path.read_text("utf-8")
        return
    other = tmp_path / "other.png"
    drawing.draw(WEIGHTS, ["我", "喝水", "茶。"], ["J'aime", "thé"], str(other))
    assert other.read_bytes() != path.read_bytes(), "boxes would all look alike"


def test_a_glyph_that_matplotlib_lacks_is_a_warning_that_fails_a_test(tmp_path):
    """Or the test above could not fail."""
    page, axes = figure.canvas(1, 1)
    axes.set_title("我", fontfamily=["cmr10"])
    with pytest.warns(UserWarning, match="missing from"):
        figure.save(page, str(tmp_path / "x.png"))
