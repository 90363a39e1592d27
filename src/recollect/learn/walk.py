"""A chapter walked through in the terminal: read, predict, run, answer; it can be left and continued."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from ..core.language import LANGUAGES, language, localize
from .chapters import HEADINGS, Chapter, read_chapters
from .progress import Progress, progress_file, read_progress, write_progress
from .terminal import Part, split_section

WIDTH = 100
HEADING = "bold cyan"
SCRIPT = '#!/bin/sh\nexec "{}" -P -m recollect "$@"\n'
WHOLE = "dim"  # the style of what is not folded: paths


class Left(Exception):
    """The reader leaves."""


class Back(Exception):
    """The reader goes back by a section."""


class Walk:
    """A way through the chapters. Without a terminal nothing is asked; without `run` what the page printed is shown."""

    def __init__(self, run: bool | None = None) -> None:
        from rich.console import Console
        from rich.theme import Theme

        self.live = bool(sys.stdin and sys.stdin.isatty() and sys.stdout.isatty())
        self.run = self.live if run is None else run
        columns = shutil.get_terminal_size((WIDTH, 24)).columns
        self.console = Console(width=min(columns, WIDTH), highlight=False, theme=Theme({"markdown.code": HEADING}))
        self.folder: Path | None = None
        self.unwritten = False

    def go(self, chapter: Chapter, section: str = "") -> None:
        """From a section of a chapter on, through all chapters that follow, until the reader leaves."""
        try:
            while True:
                self.walk_chapter(chapter, section)
                following = [each for each in read_chapters(language()) if each.number == chapter.number + 1]
                if not following or not self.live:
                    return
                self.folder, (chapter,), section = None, following, ""
                self.remember(chapter, next(iter(chapter.sections)))
                self.ask(localize(f"Enter goes on to chapter {chapter.number}: {chapter.title}; q leaves"))
        except Left:
            self.say(localize("Left here. `recollect learn --continue` goes on from this section."), style="bold")

    def walk_chapter(self, chapter: Chapter, section: str = "") -> None:
        keys = list(chapter.sections)
        at = keys.index(section) if section in keys else 0
        self.say(f"\n{chapter.number}. {chapter.title}", style="bold")
        while at < len(keys):
            self.remember(chapter, keys[at])
            try:
                self.show_section(chapter, keys[at], f"{at + 1}/{len(keys)}")
                at += 1
            except Back:
                at = max(0, at - 1)
        before = read_progress()
        finished = dict.fromkeys((*before.finished, chapter.name))
        self.keep(before._replace(finished=tuple(finished)))

    def remember(self, chapter: Chapter, section: str) -> None:
        self.keep(read_progress()._replace(chapter=chapter.name, section=section))

    def keep(self, progress: Progress) -> None:
        if self.live and not write_progress(progress) and not self.unwritten:
            self.unwritten = True
            self.say(localize(f"note: {progress_file()} cannot be written, so this place will not be remembered"))

    # A section

    def show_section(self, chapter: Chapter, key: str, place: str) -> None:
        heading = HEADINGS[key][LANGUAGES.index(language())]
        self.say(f"\n{'─' * 4} {heading} ({place}) {'─' * 4}\n" if self.live else f"\n## {heading}\n", style=HEADING)
        ran = False
        for part in split_section(chapter.sections[key]):
            if part.kind in ("python", "sh"):
                self.show_code(part)
                ran = self.offer_run(part, predict=key == "experiment")
            elif part.kind == "printed":
                if not ran:
                    print(part.text)
            elif part.kind == "answer":
                self.ask(localize(f"Enter shows: {part.about}"))
                self.say(f"{part.about}:\n", style="bold")
                self.show_text(part.text)
            elif part.kind == "figure":
                self.show_figure(part, chapter)
            elif part.kind == "formula":
                self.say(f"    {part.text}\n")
            else:
                self.show_text(part.text)
        self.ask(localize("Enter goes on, b goes back, q leaves"))

    def show_text(self, text: str) -> None:
        if not self.live:
            self.say(f"{text}\n")
            return
        from rich.markdown import Markdown

        self.console.print(Markdown(text, code_theme="ansi_dark", hyperlinks=False))
        print()

    def show_code(self, part: Part) -> None:
        if not self.live:
            self.say(part.text)
            return
        from rich.syntax import Syntax

        code = Syntax("", part.kind, theme="ansi_dark", background_color="default").highlight(part.text)
        self.console.print(code, soft_wrap=True)  # a command that is cut off cannot be copied

    def show_figure(self, part: Part, chapter: Chapter) -> None:
        path = chapter.path.parent / part.about
        self.say(localize(f"[picture] {part.text}"))
        self.say(f"{path}\n" if path.is_file() else "", style=WHOLE)

    # Running

    def offer_run(self, part: Part, *, predict: bool) -> bool:
        """Run code or commands if the reader wants that; whether it was done, to the end."""
        if not self.run:
            return False
        guess = self.ask(localize("What do you expect? Write it here, or press Enter")) if predict else ""
        skip = self.ask(localize("Enter runs it, s shows what it printed when this page was made")).lower() == "s"
        if skip or (words := self.command_for(part)) is None:
            return False
        began = time.monotonic()
        sys.stdout.flush()
        process, env = None, os.environ | {"COLUMNS": str(self.console.width)}
        try:
            process = subprocess.Popen(  # noqa: S603 (the code of our own pages)
                words, cwd=self.folder, env=env, stdin=subprocess.DEVNULL
            )
            code = process.wait()
        except KeyboardInterrupt:  # the terminal has sent it to the commands too
            if process is not None:
                process.terminate()
                process.wait()
            raise Left from None
        took = time.monotonic() - began
        if code:
            self.say(localize(f"It ended with exit code {code}. When this page was made it printed:") + "\n")
            return False
        self.say(localize(f"(It took {took:.0f} s.)") + "\n", style=WHOLE)
        if guess:
            self.say(localize(f"You expected: {guess}") + "\n", style="bold")
        return True

    def command_for(self, part: Part) -> Sequence[str] | None:
        """What runs a piece of code, or a block of commands; None where this machine has no shell for them."""
        folder = self.make_folder()
        if part.kind == "python":
            path = folder / "chapter.py"
            path.write_text(part.text, encoding="utf-8")
            return [sys.executable, path.name]
        shell = shutil.which("sh")
        if shell is None:
            self.say(localize("Expected a shell, sh, to run these lines, found none; type them yourself."))
            return None
        return [shell, "-e", "-c", part.text]

    def make_folder(self) -> Path:
        """The folder where the code of a chapter is run, with a `./recollect` inside that is this installation."""
        if self.folder is None:
            self.folder = Path(tempfile.mkdtemp(prefix="recollect-learn-"))
            script = self.folder / "recollect"
            script.write_text(SCRIPT.format(sys.executable), encoding="utf-8")
            script.chmod(0o755)
            self.say(localize(f"It runs in {self.folder}, where what it writes stays.") + "\n", style=WHOLE)
        return self.folder

    # Words

    def say(self, text: str, style: str = "") -> None:
        """A text as it is, without markup."""
        if text and self.live:
            self.console.print(text, style=style or None, markup=False, soft_wrap=style == WHOLE)
        elif text:
            print(text)

    def ask(self, question: str) -> str:
        """The answer of the reader; empty where there is no terminal."""
        if not self.live:
            return ""
        try:
            with contextlib.suppress(ImportError):
                import readline  # noqa: F401 (input then has a line that can be edited)
            answer = input(f"{question} > ").strip()
        except (EOFError, KeyboardInterrupt):
            print()
            raise Left from None
        print()
        if answer.lower() == "q":
            raise Left
        if answer.lower() == "b":
            raise Back
        return answer


def list_chapters() -> str:
    """The chapters, which of them are finished, and where the reader left off."""
    progress = read_progress()
    lines = []
    for chapter in read_chapters(language()):
        mark = "✓" if chapter.name in progress.finished else " "
        here = ""
        if chapter.name == progress.chapter and progress.section in HEADINGS:
            heading = HEADINGS[progress.section][LANGUAGES.index(language())]
            here = "   ← " + localize(f"you are here: {heading}")
        lines.append(f"{chapter.number:>3} {mark} {chapter.title} ({chapter.name}){here}")
    return "\n".join(lines)
