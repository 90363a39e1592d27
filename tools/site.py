"""The site of all documents, in both languages: python -m tools.site [--out build/site]

The pages are those of the checkout: their folders are copied, links to source files with them, formulas become MathML,
and MkDocs builds what is there. A link that leads nowhere is an error, as is a page that would ask another host for
anything.
"""

import argparse
import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from latex2mathml.converter import convert

from recollect.learn.chapters import PAGE as CHAPTER
from recollect.learn.chapters import find_chapter

from .notebooks import notebook
from .translated import STAMP

ROOT = Path(__file__).resolve().parents[1]
THEME = ROOT / "tools" / "site_theme"
FENCE = re.compile(r"^(?P<indent> *)```[^\n]*\n.*?^(?P=indent)```[ ]*$|`[^`\n]+`|^(?: {4,}|\t)[^\n]*$", re.M | re.S)
FORMULA = re.compile(r"\$\$(?P<block>.+?)\$\$", re.S)
LINK = re.compile(r"(?P<before>\]\(|^\[[^\]]+\]: *)(?P<to>[^)\s#]+)(?P<anchor>#[^)\s]*)?", re.M)
PAGES = ("README.md", "README.zh-CN.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
OUTSIDE = ("http://", "https://", "//")
FOLLOWED = ("canonical", "alternate", "prev", "next")  # of <link>: nothing is loaded
CHINESE = (".zh.md", ".zh-CN.md")
BROKEN = re.compile(r"(?<=[\u3000-\u9fff\uff01-\uffef])\n(?=[\u3000-\u9fff\uff01-\uffef])")  # a line of Chinese prose


def main() -> int:
    parser = argparse.ArgumentParser(description="Builds the site.")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site")
    out = parser.parse_args().out.resolve()
    with tempfile.TemporaryDirectory() as folder:
        stage(ROOT, Path(folder) / "docs")
        settings = Path(folder) / "mkdocs.yml"
        shutil.copy(THEME / "mkdocs.yml", settings)
        shutil.copy(THEME / "style.css", Path(folder) / "docs" / "style.css")
        command = [sys.executable, "-m", "mkdocs", "build", "-s", "-f", settings, "-d", out]
        done = subprocess.run(
            command, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, check=False, capture_output=True, text=True
        )
    if done.returncode:
        print("\n".join(line for line in done.stderr.splitlines() if not line.startswith("INFO")), file=sys.stderr)
        return 1
    found = problems(out)
    print("\n".join(found) if found else f"{out}: {len(list(out.rglob('*.html')))} pages")
    return int(bool(found))


def stage(root: Path, place: Path) -> None:
    """Copy the pages and whatever they link to, as MkDocs wants to have it."""
    shutil.copytree(root / "docs", place / "docs")
    for name in PAGES:
        shutil.copy(root / name, place / name)
    pages = sorted(place.rglob("*.md"))
    for page in pages:
        partner = page.with_suffix(".zh.md")
        if not page.name.endswith(CHINESE) and partner not in pages and page.name != "README.md":
            shutil.copy(page, partner)  # shown in English among the Chinese pages, with links to those
    for page in sorted(place.rglob("*.md")):
        text = STAMP.sub("", page.read_text(encoding="utf-8")) + notebook_link(page)  # the title comes first
        page.write_text(prepare(text, page.relative_to(place), root, place), encoding="utf-8")
    (place / "README.zh-CN.md").rename(place / "README.zh.md")
    (place / "docs" / "glossary.zh.md").rename(place / "docs" / "glossary.md")  # one page for both


def notebook_link(page: Path) -> str:
    """Below a chapter of the course, where to get it as a notebook, which is put beside it."""
    found = CHAPTER.fullmatch(page.name)
    if page.parent.name != "course" or not found:
        return ""
    language = "zh" if found["zh"] else "en"
    chapter = find_chapter(found["number"], language)
    name = f"{page.name.split('.')[0]}-{language}.ipynb"  # a .zh. would be a translation to MkDocs
    page.with_name(name).write_text(json.dumps(notebook(chapter), ensure_ascii=False), encoding="utf-8")
    return f"\n[Jupyter notebook]({name})\n"


def prepare(text: str, name: Path, root: Path, place: Path) -> str:
    """A page with its formulas as MathML and its links as they are on the site; code stays as it is."""
    parts, end = [], 0
    for fence in FENCE.finditer(text):
        parts += [prepare_prose(text[end : fence.start()], name, root, place), fence[0]]
        end = fence.end()
    return "".join([*parts, prepare_prose(text[end:], name, root, place)])


def prepare_prose(text: str, name: Path, root: Path, place: Path) -> str:
    text = FORMULA.sub(lambda found: f'<div class="formula">{formula(found["block"])}</div>', text)
    text = BROKEN.sub("", text.replace("<details>", '<details markdown="1">'))  # a browser would put a blank there
    return LINK.sub(
        lambda found: found["before"] + leads_to(found["to"], name, root, place) + (found["anchor"] or ""), text
    )


def formula(tex: str) -> str:
    """MathML, which browsers draw themselves."""
    return convert(" ".join(tex.split()), display="block")


def leads_to(to: str, name: Path, root: Path, place: Path) -> str:
    """Where a link of a page leads on the site; a source file that it names is copied, of a folder its list is made."""
    if to.startswith(("http:", "https:", "mailto:", "<")):
        return to
    path = (root / name.parent / to).resolve()
    if not path.is_relative_to(root) or not path.exists():
        return to  # which is found when the site is built
    if to.endswith(CHINESE):
        english = re.sub(r"\.zh(-CN)?\.md$", ".md", path.relative_to(root).as_posix())
        if name.name.endswith(CHINESE) or english == "docs/glossary.md":
            return posixpath.relpath(english, name.parent.as_posix())  # from there it is the Chinese page
        return posixpath.relpath(f"zh/{address_of(english)}", address_of(name.as_posix()) or ".") + "/"
    target = place / path.relative_to(root)
    if path.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        names = sorted(part.name for part in path.iterdir() if not part.name.startswith(("_", ".")))
        (target / "files.txt").write_text("\n".join(names) + "\n", encoding="utf-8")
        return f"{to.rstrip('/')}/files.txt"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    return to


def address_of(page: str) -> str:
    """Where the English page of a file stands on the site."""
    return re.sub(r"(^|/)(README|index)\.md$", r"\1", page).removesuffix(".md")


class Page(HTMLParser):
    """The links of a page, the names in it that links can lead to, and what it loads by itself from elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.names: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.names |= {name for name in (given.get("id"), given.get("name")) if name}
        address = given.get("href") or given.get("src") or ""
        followed = tag == "a" or given.get("rel") in FOLLOWED
        if address.startswith(OUTSIDE):
            self.loaded += [] if followed else [address]
        elif address and not re.match(r"[a-z]+:", address):
            self.links.append(address)


def problems(out: Path) -> list[str]:
    """Links of the built site that lead nowhere, and whatever its pages would ask another host for."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(out.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        own = path.relative_to(out).as_posix()
        found += [f"{own}: loads {address}" for address in page.loaded]
        for link in dict.fromkeys(page.links):
            to, _, name = unquote(link).partition("#")
            target = out / to.lstrip("/") if to.startswith("/") else (path.parent / to)
            target = (target / "index.html" if target.is_dir() else target).resolve() if to else path
            if not target.is_file() or (name and target in pages and name not in pages[target].names):
                found.append(f"{own}: the link {link} leads nowhere")
    for path in sorted(out.rglob("*.css")):
        for address in re.findall(r"url\(['\"]?((?:https?:)?//[^)'\"]+)", path.read_text(encoding="utf-8")):
            found.append(f"{path.relative_to(out)}: loads {address}")
    return found


if __name__ == "__main__":
    sys.exit(main())
