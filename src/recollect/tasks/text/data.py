"""A text corpus as tokens: from files, a folder, a known set, or the source of Python's standard library.

The vocabulary is that of the training part alone. Everything is made in bounded memory, kept in the cache folder, and
made anew when a source changes.
"""

import hashlib
import os
import platform
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from ...core import typed
from ...core.summary import FileList
from ...data import tokenizers
from ...data.byte_files import StrPath, path_of
from ...data.cache import Entry, EntryWriter, Loaded, Sources, cache_folder, hash_json, name_folder
from ...data.errors import DataError, Unreachable
from ...data.file_lists import TEXT, describe_skipped, list_files
from ...data.files import Text, chunks, files, some_of, walk
from ...data.known import TextSet, TranslationSet, find_set, sets_of
from ...data.tokenizers.base import Tokenizer, UnknownCharacter, smallest, visible
from ...data.tokenizers.chars_and_bytes import Bytes, Chars
from .settings import UNKNOWN

Tokens = np.memmap[Any, np.dtype[Any]]
SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Corpus:
    """Tokens by split, memory-mapped and read-only, with their tokenizer and statistics of the text."""

    name: str
    tokenizer: Tokenizer
    train: Tokens
    valid: Tokens
    test: Tokens | None
    text_bytes: dict[str, int]  # of each split's text as UTF-8: what bits per byte are divided by
    unknown_share: dict[str, float]  # of each split's tokens that are <unk>
    fingerprint: str  # sha256 over the texts and the tokenizer: the same wherever the files lie
    notes: list[str]  # what a reader of results should know
    lines: Mapping[str, int] = field(default_factory=dict)  # of each split
    files: FileList | None = None


def load(
    data: Sequence[StrPath] | StrPath | None = None,
    *,
    tokenizer: str = "chars",
    vocab: int | None = None,
    valid: Sequence[StrPath] | None = None,
    test: Sequence[StrPath] | None = None,
    share: float = 0.1,
    letters: bool = False,
    encoding: str | None = None,
    data_dir: StrPath | None = None,
    cache: StrPath | None = None,
    existing: Tokenizer | None = None,
) -> Corpus:
    """Read a corpus.

    `data` is one or more files or folders, the name of a known set (for a file of that name write ./name), or None
    for the Python standard library's own source.
    Without validation files (and where the set has none) the last `share` of the characters is the validation part;
    of the standard library it is about that share of the files. With `letters` only a to z and blanks are read.
    `encoding` is that of files that are no UTF-8; known sets are.
    `tokenizer` is one of `tokenizers.CHOICES`;
    `existing` is one that a run already has, used as it is. For bytes the files may hold any bytes, read as they are.
    """
    skipped: list[tuple[Path, str]] = []
    name, texts, by_order = _sources(data, valid, test, share, data_dir, cache, skipped, encoding)
    exact = (tokenizer if existing is None else existing.kind) == Bytes.kind
    texts = {split: replace(text, letters=letters, exact=exact, encoding=encoding) for split, text in texts.items()}
    other = {} if encoding is None else {"encoding": encoding}
    sources = Sources([path for text in texts.values() for path in text.paths])
    settings = (
        {
            "tokenizer": tokenizer if existing is None else tokenizers.fingerprint(existing),
            "vocab": vocab if existing is None else None,
            "splits": {split: [str(path.absolute()) for path in text.paths] for split, text in texts.items()},
            "share": share if by_order else None,
            "letters": letters,
        }
        | ({"exact": True} if exact else {})
        | other
    )
    folder = cache_folder(cache) / "text" / name_folder(name, settings)

    def make_plan(writer: EntryWriter) -> None:
        _store_plan(writer, _plan(texts, tokenizer, vocab, share, by_order, existing))

    plan = Entry(folder, "corpus", sources, settings).load_or_make(_read_plan, make_plan)
    if by_order:
        texts |= {"train": replace(texts["train"], stop=plan.cut), "valid": replace(texts["train"], start=plan.cut)}

    numbers = tokenizers.fingerprint(plan.tokenizer)
    found: dict[str, Loaded] = {}
    for split, text in texts.items():
        made_by = {"tokenizer": numbers, "part": [text.start, text.stop], "letters": letters} | other
        entry = Entry(folder, split, sources.subset(text.paths), made_by)
        found[split] = entry.load_or_make(
            partial(_check_tokens, plan.tokenizer), partial(_encode, entry, text, plan.tokenizer)
        )

    counts = {split: part.content["unknown"] / len(part.arrays["tokens"]) for split, part in found.items()}
    notes = [*plan.notes, *describe_skipped(skipped)]
    if any(counts.values()):
        shares = ", ".join(f"{split} {100 * value:.3g} %" for split, value in counts.items() if value)
        notes.append(f"share of the tokens that are <unk>: {shares}")
    hashes = {split: part.content["text_sha256"] for split, part in found.items()}
    return Corpus(
        name=name,
        tokenizer=plan.tokenizer,
        train=found["train"].arrays["tokens"],
        valid=found["valid"].arrays["tokens"],
        test=found["test"].arrays["tokens"] if "test" in found else None,
        text_bytes={split: part.content["text_bytes"] for split, part in found.items()},
        unknown_share=counts,
        fingerprint=hash_json({"texts": hashes, "tokenizer": numbers}),
        notes=notes,
        lines={split: part.content["lines"] for split, part in found.items()},
        files=list_files(sources.paths, skipped, encoding="any bytes" if exact else TEXT, other=encoding),
    )


# -------------------------------------------------------------------------------------------- where text comes from


def _sources(
    data: Sequence[StrPath] | StrPath | None,
    valid: Sequence[StrPath] | None,
    test: Sequence[StrPath] | None,
    share: float,
    data_dir: StrPath | None,
    cache: StrPath | None,
    skipped: list[tuple[Path, str]],
    encoding: str | None,
) -> tuple[str, dict[str, Text], bool]:
    """The name, the texts by split, and whether the validation part has to be cut from the end of the first.

    Files in folders that cannot be used are added to `skipped`, with the reason.
    """

    def skip(path: Path, reason: str) -> None:
        skipped.append((path, reason))

    if isinstance(data, str | os.PathLike):
        data = [data]
    paths: dict[str, list[Path]]
    if data is not None and [str(path) for path in data] == [UNKNOWN]:
        raise Unreachable("expected a text, found that of a run with imported weights, which is not known; give --data")
    if data is None:
        name, paths = f"python-{platform.python_version()}", {"train": _library()}
    elif len(data) == 1 and str(data[0]) in sets_of(TextSet, TranslationSet):
        name = str(data[0])
        paths = find_set(name, TextSet).find(data_dir, cache)
    else:
        paths = {"train": _files(data, skip, encoding)}
        first = path_of(data[0]).absolute()
        name = (first.stem if first.is_file() else first.name) + (f"+{len(data) - 1}" if len(data) > 1 else "")
    for split, given in (("valid", valid), ("test", test)):
        if given is not None:
            paths[split] = files(given, skip, encoding)
    by_order = "valid" not in paths
    if by_order and not 0 < share < 1:
        raise DataError(f"expected a validation share between 0 and 1, found {share}; or name validation files")
    if by_order and data is None:
        paths |= _by_file(paths["train"], Path(sysconfig.get_path("stdlib")), share)
        by_order = False
    return name, {split: Text(tuple(paths[split])) for split in SPLITS if split in paths}, by_order


def _files(data: Sequence[StrPath], skip: Callable[[Path, str], None], encoding: str | None) -> list[Path]:
    try:
        return files(data, skip, encoding)
    except DataError as error:
        if len(data) == 1 and not path_of(data[0]).exists():
            raise DataError(f"{error}; known sets are {', '.join(sets_of(TextSet, TranslationSet))}") from None
        raise


def _library() -> list[Path]:
    """The source files of Python's standard library, without tests and installed packages."""
    root = Path(sysconfig.get_path("stdlib"))
    found = [
        path
        for path in (walk(root, _of_the_library) if root.is_dir() else ())
        # _sysconfigdata: how this Python was built, different on every machine
        if path.suffix == ".py" and not path.name.startswith("_sysconfigdata") and _decodes(path)
    ]
    if not found:
        raise DataError(f"expected Python's own source in {root}, found none; name a text with --data")
    return found


def _of_the_library(folder: str) -> bool:
    return folder not in ("site-packages", "dist-packages", "test", "tests") and not folder.endswith("_test")


def _decodes(path: Path) -> bool:
    try:
        return sum(1 for _ in chunks(path)) > 0
    except DataError:
        return False


def _by_file(paths: list[Path], root: Path, share: float) -> dict[str, list[Path]]:
    """Split files by the hash of their names, about `share` for validation; the same on every machine."""
    parts: dict[str, list[Path]] = {"train": [], "valid": []}
    for path in paths:
        name = path.relative_to(root).as_posix().encode()
        low = int.from_bytes(hashlib.sha256(name).digest()[:8]) < share * 2**64
        parts["valid" if low else "train"].append(path)
    for split, some in parts.items():
        if not some:
            raise DataError(
                f"expected files for the {split} part, found none of {len(paths)} at share {share}; change it"
            )
    return parts


# ------------------------------------------------------------------------------------------------- the vocabulary


@dataclass(frozen=True)
class _Plan:
    """How a text is encoded: the tokenizer, and where it is split."""

    tokenizer: Tokenizer
    cut: int | None  # where the training part ends, in characters, for a text divided by order
    notes: tuple[str, ...]


def _plan(
    texts: dict[str, Text], kind: str, vocab: int | None, share: float, by_order: bool, existing: Tokenizer | None
) -> _Plan:
    texts, cut = dict(texts), None
    if by_order:
        total = texts["train"].characters()
        cut = int(total * (1 - share))
        if not 0 < cut < total:
            raise DataError(
                f"expected text enough for a validation share of {share}, found {total:,} characters in "
                f"{texts['train'].paths[0]}; use a longer text, or name validation files"
            )
        texts |= {"train": replace(texts["train"], stop=cut), "valid": replace(texts["train"], start=cut)}
    if existing is not None:
        return _Plan(existing, cut, ())
    made = tokenizers.train(kind, texts["train"], vocab)
    notes: list[str] = []
    if isinstance(made, Chars) and made.closed:
        for split, text in texts.items():
            lacking = made.lacking(text) if split != "train" else {}
            if lacking:
                some = " ".join(visible(c) for c in sorted(lacking, key=lambda c: (-lacking[c], c))[:12])
                more = " …" if len(lacking) > 12 else ""
                notes.append(
                    f"the {split} part has {len(lacking):,} characters that training lacks ({some}{more}), "
                    f"{sum(lacking.values()):,} times; they are read as <unk>"
                )
        if notes:
            made = made.with_unknown()
    return _Plan(made, cut, tuple(notes))


class _PlanContent(TypedDict):
    """A plan in the cache."""

    cut: int | None
    notes: list[str]
    tokenizer: dict[str, Any]


def _read_plan(found: Loaded) -> _Plan:
    """The plan in the cache."""
    content = typed.read(found.content, _PlanContent)
    return _Plan(tokenizers.from_json(content["tokenizer"]), content["cut"], tuple(content["notes"]))


def _store_plan(writer: EntryWriter, plan: _Plan) -> None:
    writer.content = {"cut": plan.cut, "notes": list(plan.notes), "tokenizer": plan.tokenizer.to_json()}


# ----------------------------------------------------------------------------------------------------- the tokens


class TextDigest:
    """Size and sha256 of a text as UTF-8, and its lines, counted while it is read."""

    def __init__(self) -> None:
        self.bytes = self._ends = 0
        self._last = "\n"
        self._digest = hashlib.sha256()

    def read(self, chunks: Iterable[str]) -> Iterator[str]:
        """The same chunks."""
        for chunk in chunks:
            data = chunk.encode("utf-8", "surrogateescape")
            self.bytes += len(data)
            self._digest.update(data)
            self._ends += chunk.count("\n")
            self._last = chunk[-1:] or self._last
            yield chunk

    @property
    def lines(self) -> int:
        return self._ends + (self._last != "\n")

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()


class _TokensContent(TypedDict):
    """What the cache holds of a split beside its tokens."""

    text_bytes: int
    text_sha256: str
    unknown: int
    lines: int


def _check_tokens(tokenizer: Tokenizer, found: Loaded) -> Loaded:
    """The tokens in the cache, where each is one of the tokenizer's."""
    typed.read(found.content, _TokensContent)
    tokens = found.arrays["tokens"]
    if tokens.ndim != 1 or not 0 <= int(tokens.min()) <= int(tokens.max()) < tokenizer.size:
        raise DataError(f"expected tokens from 0 to {tokenizer.size - 1:,} in the cache, found others")
    return found


def _encode(entry: Entry, text: Text, tokenizer: Tokenizer, writer: EntryWriter) -> None:
    """Write the tokens of a text to the cache."""
    digest, unknown = TextDigest(), 0
    tokens = writer.add_array("tokens", smallest(tokenizer.size))
    try:
        for batch in tokenizer.encode_stream(digest.read(text)):
            tokens.append(batch)
            if tokenizer.unknown is not None:
                unknown += int(np.count_nonzero(batch == tokenizer.unknown))
    except UnknownCharacter as error:
        where = text.locate(error.index)
        raise UnknownCharacter(error.character, error.index, error.size, where) from None
    if not tokens.count:
        raise DataError(
            f"expected text for the {entry.name} part, found only blanks in {some_of(entry.sources.paths, 3)}"
        )
    writer.content = {
        "text_bytes": digest.bytes, "text_sha256": digest.sha256, "unknown": unknown, "lines": digest.lines
    }  # fmt: skip
