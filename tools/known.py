"""docs/data.md and docs/data.zh.md, the known sets file by file, from their registry: python -m tools.known"""

from pathlib import Path

from recollect.data.known.kinds import KnownSet, SoundSet
from recollect.data.known.sets import KNOWN

from . import translated

ROOT = Path(__file__).resolve().parents[1]
PATHS = {"en": ROOT / "docs" / "data.md", "zh": ROOT / "docs" / "data.zh.md"}
HEAD = {
    "en": """\
# Known sets, and how to place them by hand

`--data NAME` takes a public set by its name. Files that have an address are downloaded into the cache when they are
first asked for; those without one are put there by hand. Where the network is slow or closed, all of them can be: make
a folder, put each file under the path of the table, packed with gzip or not, and name the folder:

```sh
recollect train text --data tinyshakespeare --data-dir my-data
```

`RECOLLECT_DATA=my-data` does the same for every command. Each file is compared with its sha256 before it is used;
`sha256sum my-data/tinyshakespeare/input.txt` prints that of yours, and one that differs is refused in a line that names
both.
""",
    "zh": """\
# 已知数据集，以及怎样手工放置

`--data 名字` 直接使用公开的数据集。有地址的文件在第一次用到时下载到缓存；没有地址的要手工放置。网络太慢或不通时，
所有文件都可以手工放：建一个文件夹，把每个文件按表中的路径放好（用不用 gzip 压缩都可以），再指明这个文件夹：

```sh
recollect train text --data tinyshakespeare --data-dir my-data
```

`RECOLLECT_DATA=my-data` 对所有命令有同样的作用。每个文件使用前都会核对 sha256；
`sha256sum my-data/tinyshakespeare/input.txt` 可以算出你手上文件的值，不一致的会被拒绝，并用一行指出两个值。
""",
}
WORDS = {
    "en": ("licence", "from", "file", "bytes, unpacked", "sha256", "address", "by hand"),
    "zh": ("许可", "来源", "文件", "解压后字节数", "sha256", "地址", "手工放置"),
}


def describe(found: KnownSet, language: str) -> str:
    """A set: what it is, its licence, and its files with path, size, sha256 and address."""
    licence, origin, *columns, by_hand = WORDS[language]
    lines = [f"{found.about[0].upper()}{found.about[1:]}. {licence}: {found.licence}."]
    if found.origin:
        lines[0] += f" {origin}: {found.origin}."
    lines += ["", "| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    files = dict.fromkeys(file for files in found.splits.values() for file in files)
    lines += [
        f"| `{file.path}` | {file.size:,} | `{file.sha256}` | {f'<{file.address}>' if file.address else by_hand} |"
        for file in files
    ]
    if isinstance(found, SoundSet):
        lines.append(f"| `{found.folder}/*.wav`, {found.count:,} | {found.size:,} | `{found.sha256}` | {by_hand} |")
    return "\n".join(lines)


def document(language: str) -> str:
    """The page; the Chinese one with the hashes of the English sections."""
    if language == "zh":
        return translated.stamp(assemble("en"), assemble("zh"))
    return assemble(language)


def assemble(language: str) -> str:
    sets = "".join(
        f"\n## `{name}`\n\n<!-- known set -->\n{describe(found, language)}\n<!-- end -->\n"
        for name, found in sorted(KNOWN.items())
    )
    return HEAD[language] + sets


if __name__ == "__main__":
    for language, path in PATHS.items():
        path.write_text(document(language), encoding="utf-8")
