"""Runs of a GPT-2 in Hugging Face's layout: its function, its token ids, and folders that are refused."""

import json
import math
import re

import pytest
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch import Tensor

import recollect
import tiny
from recollect.core.errors import RecollectError
from recollect.data.tokenizers.byte_pairs import Bpe
from recollect.export.gpt2 import import_folder

VOCAB, PLACES, WIDE, LAYERS, HEADS = 280, 64, 12, 2, 3
CONFIG = {
    "model_type": "gpt2",
    "vocab_size": VOCAB,
    "n_positions": PLACES,
    "n_embd": WIDE,
    "n_layer": LAYERS,
    "n_head": HEADS,
    "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5,
    "resid_pdrop": 0.1,
}
STRANGE = "naïve 東京 \x00 don't   stop\n\n 12345 𝔘"


def weights(hidden=4 * WIDE, prefix="transformer.", masks=False) -> dict[str, Tensor]:
    """Random weights by GPT-2's names, large enough that every part of the function shows."""
    draw = torch.Generator().manual_seed(0)
    shapes = {"wte.weight": (VOCAB, WIDE), "wpe.weight": (PLACES, WIDE), "ln_f.weight": (WIDE,), "ln_f.bias": (WIDE,)}
    maps = {
        "attn.c_attn": (WIDE, 3 * WIDE),
        "attn.c_proj": (WIDE, WIDE),
        "mlp.c_fc": (WIDE, hidden),
        "mlp.c_proj": (hidden, WIDE),
    }
    for level in range(LAYERS):
        for name in ("ln_1", "ln_2"):
            shapes |= {f"h.{level}.{name}.weight": (WIDE,), f"h.{level}.{name}.bias": (WIDE,)}
        for name, shape in maps.items():
            shapes |= {f"h.{level}.{name}.weight": shape, f"h.{level}.{name}.bias": shape[1:]}
    found = {f"{prefix}{name}": 0.5 * torch.randn(shape, generator=draw) for name, shape in shapes.items()}
    if masks:
        found |= {f"{prefix}h.{level}.attn.bias": torch.ones(1, 1, PLACES, PLACES) for level in range(LAYERS)}
    return found


def gelu_new(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def gpt2(w: dict[str, Tensor], tokens: Tensor, activation=gelu_new, head: Tensor | None = None) -> Tensor:
    """The logits of a GPT-2 in float64, by the equations of Radford 2019: B T → B T V."""
    w = {name.removeprefix("transformer."): tensor.double() for name, tensor in w.items()}

    def norm(x, name):
        centred = x - x.mean(dim=-1, keepdim=True)
        deviation = (centred.square().mean(dim=-1, keepdim=True) + 1e-5).sqrt()
        return centred / deviation * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(x, name):
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    x = w["wte.weight"][tokens] + w["wpe.weight"][: tokens.shape[1]]
    size = WIDE // HEADS
    for level in range(LAYERS):
        joined = linear(norm(x, f"h.{level}.ln_1"), f"h.{level}.attn.c_attn")
        q, k, v = (joined[..., at * WIDE : (at + 1) * WIDE] for at in range(3))
        heads = []
        for head_number in range(HEADS):
            own = slice(head_number * size, (head_number + 1) * size)
            scores = q[..., own] @ k[..., own].transpose(1, 2) / math.sqrt(size)
            hidden = torch.ones_like(scores).triu(1).bool()
            heads.append(scores.masked_fill(hidden, -math.inf).softmax(dim=-1) @ v[..., own])
        x = x + linear(torch.cat(heads, dim=-1), f"h.{level}.attn.c_proj")
        inner = activation(linear(norm(x, f"h.{level}.ln_2"), f"h.{level}.mlp.c_fc"))
        x = x + linear(inner, f"h.{level}.mlp.c_proj")
    return norm(x, "ln_f") @ (w["wte.weight"] if head is None else head.double()).T


@pytest.fixture(scope="module")
def engine():
    """A byte-level tokenizer of VOCAB tokens, the last of them special as in GPT-2."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=VOCAB - 1, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator([tiny.prose()], trainer)
    made.add_special_tokens(["<|endoftext|>"])
    assert made.get_vocab_size() == VOCAB
    return made


@pytest.fixture
def folder_of(engine, tmp_path):
    """A folder of a GPT-2; changes to config.json by name, None to leave a key out."""

    def make(found=None, *, whole=True, **changes):
        place = tmp_path / "gpt2"
        place.mkdir()
        config = {name: value for name, value in (CONFIG | changes).items() if value is not None}
        (place / "config.json").write_text(json.dumps(config))
        save_file(weights() if found is None else found, place / "model.safetensors")
        if whole:
            engine.save(str(place / "tokenizer.json"))
        else:
            described = json.loads(engine.to_str())
            vocabulary = described["model"]["vocab"] | {"<|endoftext|>": VOCAB - 1}
            lines = ["#version: 0.2", *(" ".join(pair) for pair in described["model"]["merges"]), ""]
            (place / "vocab.json").write_text(json.dumps(vocabulary))
            (place / "merges.txt").write_text("\n".join(lines), encoding="utf-8")
        return place

    return make


def tokens(rows=3):
    return torch.randint(VOCAB, (rows, PLACES), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def assert_equals(run, expected):
    """That the whole call, and single steps with the state between them, give the expected logits."""
    model = recollect.load(run)
    y, _ = model.module(tokens())
    assert (y - expected).abs().max() <= 1e-5 * expected.abs().max()
    state = None
    for at in range(PLACES):
        y, state = model.step(tokens()[:, at], state)
        assert (torch.from_numpy(y) - expected[:, at]).abs().max() <= 1e-5 * expected.abs().max()


@pytest.mark.parametrize("whole", [True, False], ids=["tokenizer.json", "vocab and merges"])
def test_an_imported_run_computes_the_equations_of_gpt2_with_its_token_ids(folder_of, tmp_path, engine, whole):
    found = import_folder(folder_of(whole=whole), tmp_path / "run")
    assert found["positions"] == PLACES
    assert found["parameters"] == sum(tensor.numel() for tensor in weights().values())
    assert_equals(tmp_path / "run", gpt2(weights(), tokens()))
    tokenizer = recollect.load(tmp_path / "run").tokenizer
    for text in (tiny.prose(), STRANGE):
        assert tokenizer.encode(text).tolist() == engine.encode(text).ids
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.token(VOCAB - 1) == "<|endoftext|>"


def test_exact_gelu_other_hidden_units_and_a_head_of_its_own_are_read(folder_of, tmp_path):
    own = weights(hidden=20)
    head = torch.randn(VOCAB, WIDE, generator=torch.Generator().manual_seed(2))
    settings = {"activation_function": "gelu", "n_inner": 20, "tie_word_embeddings": False}
    import_folder(folder_of(own | {"lm_head.weight": head}, **settings), tmp_path / "run")
    assert_equals(tmp_path / "run", gpt2(own, tokens(), gelu, head))


def test_older_files_with_masks_and_without_a_prefix_are_read(folder_of, tmp_path):
    own = weights(prefix="", masks=True)
    import_folder(folder_of(own | {"lm_head.weight": own["wte.weight"].clone()}), tmp_path / "run")
    assert_equals(tmp_path / "run", gpt2(own, tokens()))


def test_half_precision_weights_become_single(folder_of, tmp_path):
    own = {name: tensor.half() for name, tensor in weights().items()}
    import_folder(folder_of(own), tmp_path / "run")
    assert_equals(tmp_path / "run", gpt2(own, tokens()))


def shard(place):
    """The weights of a folder in two files with an index."""
    found = weights()
    (place / "model.safetensors").unlink()
    names = sorted(found)
    parts = {f"model-0000{n}-of-00002.safetensors": names[n - 1 :: 2] for n in (1, 2)}
    for file, part in parts.items():
        save_file({name: found[name] for name in part}, place / file)
    index = {"weight_map": {name: file for file, part in parts.items() for name in part}}
    (place / "model.safetensors.index.json").write_text(json.dumps(index))
    return place


def test_weights_in_several_files_are_read(folder_of, tmp_path):
    found = import_folder(shard(folder_of()), tmp_path / "run")
    assert len(found["sha256"]) == 2
    assert_equals(tmp_path / "run", gpt2(weights(), tokens()))


def test_an_index_that_leads_out_of_its_folder_is_refused(folder_of, tmp_path):
    place = folder_of()
    (place / "model.safetensors").rename(tmp_path / "model.safetensors")
    index = {"weight_map": dict.fromkeys(weights(), "../model.safetensors")}
    (place / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(RecollectError, match=r"safetensors files in this folder, found \"\.\./model"):
        import_folder(place, tmp_path / "run")


def test_the_same_logits_and_ids_as_transformers(tmp_path, engine):
    transformers = pytest.importorskip("transformers")
    place = tmp_path / "gpt2"
    settings = {name: CONFIG[name] for name in ("vocab_size", "n_positions", "n_embd", "n_layer", "n_head")}
    config = transformers.GPT2Config(**settings, bos_token_id=VOCAB - 1, eos_token_id=VOCAB - 1)
    model = transformers.GPT2LMHeadModel(config).eval()
    model.save_pretrained(place)
    engine.save(str(place / "tokenizer.json"))
    import_folder(place, tmp_path / "run")
    with torch.no_grad():
        assert_equals(tmp_path / "run", model(tokens()).logits)
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(place / "tokenizer.json"))
    assert recollect.load(tmp_path / "run").tokenizer.encode(STRANGE).tolist() == theirs(STRANGE)["input_ids"]


# Use


@pytest.fixture
def run(folder_of, tmp_path, own_cache):
    """An imported run, by the command line."""
    found = tiny.invoke("import", folder_of(), "--out", tmp_path / "run")
    assert found.exit_code == 0, found.exception
    assert "training text is not known" in found.stdout
    return tmp_path / "run"


def test_commands_and_instruments_work_on_an_imported_run(run, book):
    for words in (
        ["generate", run, "--prompt", "the cat", "--length", 5, "--device", "cpu"],
        ["verify", run],
        ["eval", run, "--data", book, "--device", "cpu"],
        ["inspect", run, "influence", "--text", "the cat sat on a mat", "--device", "cpu"],
        ["inspect", run, "state", "--device", "cpu"],
        *(["inspect", run, name, "--device", "cpu"] for name in ("cost", "gradients", "horizon")),  # to the last place
    ):
        found = tiny.invoke(*words)
        assert found.exit_code == 0, (words, found.output, found.exception)
        assert "broken" not in found.output


@pytest.mark.parametrize("words", [["eval", "RUN"], ["train", "text", "--data", "unknown", "--out", "OUT"]])
def test_where_a_text_is_needed_one_line_says_that_none_is_known(run, tmp_path, words):
    places = {"RUN": str(run), "OUT": str(tmp_path / "other")}
    found = tiny.invoke(*[places.get(word, word) for word in words], "--device", "cpu")
    assert re.search("expected a text, found that of a run with imported weights.*give --data", str(found.exception))


# Folders that are refused


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_type": "llama"}, 'expected model_type gpt2, found "llama"'),
        ({"model_type": None}, "expected model_type gpt2, found null"),
        ({"n_head": 5}, "expected n_head to divide n_embd 12, found 5"),
        ({"n_layer": 0}, "expected n_layer from 1 to 1,000, found 0"),
        ({"n_layer": 10**9}, "expected n_layer from 1 to 1,000, found 1000000000"),
        ({"n_embd": "12"}, "n_embd: expected"),
        ({"n_embd": None}, "expected the key n_embd, found none"),
        ({"n_embd": 3 * 10**6}, "expected weights of a GPT-2, "),
        ({"n_embd": 10**30}, "expected n_embd from 1 to 16,777,216, found 1000"),
        ({"n_inner": -3}, "expected n_inner from 1 to 16,777,216, found -3"),
        ({"n_layer": 3}, r"expected weights of a GPT-2; missing: h\.2\."),
        ({"n_positions": 65}, r"wpe\.weight as float32 of \(65, 12\), found float32 of \(64, 12\)"),
        ({"vocab_size": 281}, "expected a tokenizer with the 281 tokens of the model, found one with 280"),
        ({"activation_function": "silu"}, 'expected activation_function out of .*, found "silu"'),
        ({"layer_norm_epsilon": 1e-6}, "expected layer_norm_epsilon 1e-05, found 1e-06"),
        ({"scale_attn_by_inverse_layer_idx": True}, "expected scale_attn_by_inverse_layer_idx false, found true"),
        ({"tie_word_embeddings": False}, r"missing: lm_head\.weight"),
    ],
)
def test_a_config_that_is_not_of_this_gpt2_is_refused_in_a_line(folder_of, tmp_path, changes, said):
    with pytest.raises(RecollectError, match=said) as error:
        import_folder(folder_of(**changes), tmp_path / "run")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_a_pickle_is_refused_unread(folder_of, tmp_path):
    place = folder_of()
    (place / "model.safetensors").rename(place / "pytorch_model.bin")
    with pytest.raises(RecollectError, match=r"found pytorch_model\.bin, which is a pickle"):
        import_folder(place, tmp_path / "run")


def test_weights_that_are_cut_short_or_of_integers_are_refused(folder_of, tmp_path):
    place = folder_of()
    whole = (place / "model.safetensors").read_bytes()
    (place / "model.safetensors").write_bytes(whole[:-1])
    with pytest.raises(RecollectError, match="found something else or a part of one"):
        import_folder(place, tmp_path / "run")
    found = weights()
    save_file(found | {"transformer.ln_f.bias": torch.ones(WIDE, dtype=torch.int64)}, place / "model.safetensors")
    with pytest.raises(RecollectError, match=r"\"ln_f\.bias\" in floating point, found torch\.int64"):
        import_folder(place, tmp_path / "run")


def test_a_tied_head_that_differs_from_the_embedding_is_refused(folder_of, tmp_path):
    with pytest.raises(RecollectError, match=r"expected lm_head\.weight to be wte\.weight"):
        import_folder(folder_of(weights() | {"lm_head.weight": torch.zeros(VOCAB, WIDE)}), tmp_path / "run")


def alter(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda found: found.update(normalizer={"type": "NFC"}), "expected normalizer null, found"),
        (lambda found: found.update(pre_tokenizer={"type": "Whitespace"}), 'expected type "ByteLevel", found'),
        (lambda found: found["pre_tokenizer"].update(add_prefix_space=True), "expected add_prefix_space false, found"),
        (lambda found: found["model"].update(type="Unigram"), 'expected type "BPE", found "Unigram"'),
        (lambda found: found["model"].update(byte_fallback=True), "expected byte_fallback false, found true"),
        (lambda found: found["model"].pop("merges"), "expected the key merges, found none"),
        (lambda found: found["model"]["merges"].append("a b c"), 'expected merges of two tokens, found "a b c"'),
        (lambda found: found["model"]["merges"].append(["the", "zz"]), "expected merges of tokens in the bpe"),
        (lambda found: found["model"]["vocab"].update(the=0), "expected tokens numbered from 0 to 279, each once"),
        (lambda found: found["added_tokens"].append({"content": "x"}), "expected added tokens with content and id"),
    ],
)
def test_a_tokenizer_that_would_give_other_ids_is_refused_in_a_line(folder_of, tmp_path, change, said):
    place = folder_of()
    alter(place / "tokenizer.json", change)
    with pytest.raises(RecollectError, match=said) as error:
        import_folder(place, tmp_path / "run")
    assert "\n" not in str(error.value)


def test_a_folder_without_a_tokenizer_is_refused(folder_of, tmp_path):
    place = folder_of()
    (place / "tokenizer.json").unlink()
    with pytest.raises(RecollectError, match=r"expected a tokenizer as tokenizer\.json or vocab\.json and merges\.txt"):
        import_folder(place, tmp_path / "run")


def test_merges_that_are_no_text_are_refused(folder_of, tmp_path):
    place = folder_of(whole=False)
    (place / "merges.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(RecollectError, match=r"merges\.txt: expected UTF-8"):
        import_folder(place, tmp_path / "run")


def test_an_old_run_is_not_written_over(folder_of, tmp_path):
    import_folder(folder_of(), tmp_path / "run")
    with pytest.raises(RecollectError, match="expected a new or empty folder"):
        import_folder(tmp_path / "gpt2", tmp_path / "run")


def test_special_tokens_with_blanks_keep_their_text(engine):
    described = json.loads(engine.to_str())
    from recollect.export.gpt2 import build_tokenizer

    added = [{"id": VOCAB - 1, "content": "<end of text>"}]
    made = build_tokenizer("tokenizer.json", described["model"]["vocab"], described["model"]["merges"], added)
    assert isinstance(made, Bpe)
    assert made.decode([VOCAB - 1]) == "<end of text>"
