"""The command that walks through the course, and grades its exercises."""

from typing import Annotated

import typer

from .common import app, name_place


@app.command(epilog="Examples: [bold]recollect learn 4[/bold], [bold]recollect learn --exercise lstm[/bold]")
def learn(
    chapter: Annotated[
        str | None, typer.Argument(help="The number or the name of a chapter; none lists them.", show_default=False)
    ] = None,
    resume: Annotated[bool, typer.Option("--continue", help="Go on where you left off.")] = False,
    run: Annotated[
        bool | None,
        typer.Option(
            "--run/--no-run",
            help="Run the code, or show what it printed when the page was made (default: run in a terminal).",
            show_default=False,
        ),
    ] = None,
    exercise: Annotated[
        str | None,
        typer.Option(help="Write a file to fill in: lstm, soft-align, attention, ttt-linear.", show_default=False),
    ] = None,
    out: Annotated[
        str | None, typer.Option(help="With --exercise: the file.", callback=name_place, show_default=False)
    ] = None,
    check: Annotated[
        str | None,
        typer.Option(help="Grade such a file, which is executed.", callback=name_place, show_default=False),
    ] = None,
    answer: Annotated[str | None, typer.Option(help="Print the answer of an exercise.", show_default=False)] = None,
) -> None:
    """Walk through the course in the terminal: thirteen chapters, and exercises graded by the laws."""
    from ..core.language import localize
    from ..core.settings import SettingError

    ways = {"CHAPTER": chapter, "--continue": resume, "--exercise": exercise, "--check": check, "--answer": answer}
    asked = [name for name, value in ways.items() if value]
    if len(asked) > 1:
        raise SettingError(f"learn: expected one of {', '.join(ways)}, found {' and '.join(asked)}")
    if out is not None and exercise is None:
        raise SettingError("--out: expected it with --exercise, found it alone")
    if check is not None:
        grade_file(check)
    elif exercise is not None:
        from ..learn.exercises import write_exercise

        path = write_exercise(exercise, out)
        print(localize(f"{path}: write the lines of the definition, then: recollect learn --check {path}"))
    elif answer is not None:
        from ..learn.exercises import show_answer

        print(show_answer(answer), end="")
    else:
        walk(chapter, resume, run)


def grade_file(file: str) -> None:
    """Print what became of each line; an error names the first that has to be mended."""
    from ..core.language import localize
    from ..learn.check import check, list_faults, report
    from ..learn.exercises import ExerciseError

    found = check(file)
    print(report(found, file))
    if faults := list_faults(found):
        raise ExerciseError(faults[0])
    print(localize("Every line is right, and every law holds."))


def walk(chapter: str | None, resume: bool, run: bool | None) -> None:
    from ..core.language import language, localize
    from ..learn.chapters import find_chapter
    from ..learn.progress import read_progress
    from ..learn.walk import Left, Walk, list_chapters

    left = read_progress()
    if chapter is not None:
        Walk(run).go(find_chapter(chapter, language()))
    elif resume and not left.chapter:
        raise ValueError("--continue: expected a chapter that was begun, found none; begin one: recollect learn 1")
    elif resume:
        Walk(run).go(find_chapter(left.chapter, language()), left.section)
    else:
        print(list_chapters())
        own = Walk(run)
        try:
            if left.chapter:
                wanted = own.ask(localize("Enter goes on where you left off, a number begins that chapter, q leaves"))
            else:
                wanted = own.ask(localize("Enter begins chapter 1, a number begins another, q leaves"))
        except Left:
            return
        if own.live:
            begun = find_chapter(wanted or left.chapter or "1", language())
            own.go(begun, "" if wanted else left.section)
