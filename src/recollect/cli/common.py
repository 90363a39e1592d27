"""What the commands share: the application, the flags that several have, ways in and out."""

import copy
import inspect
import os
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, BinaryIO, TextIO, Union, get_args, get_origin

import typer
from typer.core import TyperGroup

from ..core.language import localize, localize_note
from ..core.limits import one_line
from ..core.settings import Flag
from .language import FLAG, help_in, localize_command, take_language

Flags = Mapping[str, tuple[Flag, Any]]  # setting → its flag and its type
MOST_LINE = 1 << 24  # bytes of a line of stdin
MOST_TEXT = 1 << 28  # bytes of stdin where it is read as one text
MOST_USAGE = 300  # characters of a message about wrong usage
UsageError: type[Exception] = typer.BadParameter.__bases__[0]  # typer has no public name for it
HELP = {"help_option_names": ["-h", "--help"]}
DECLARED: dict[str, Callable[[], Any]] = {}  # command → how it is made with its declared flags


class Commands(TyperGroup):
    """The commands; one whose flags are declared elsewhere is made with them when it is called, not before."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> Any:
        code, words = take_language(sys.argv[1:] if args is None else args)
        with help_in(code):
            localize_command(self)
            for command in self.commands.values():
                localize_command(command)
            return super().main(words, *rest, **extra)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except UsageError as error:  # it quotes what was given, of any length
            error.message = one_line(error.message, MOST_USAGE)  # type: ignore[attr-defined]
            raise

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, localize_command(DECLARED[name]()) if name in DECLARED else command, rest


app = typer.Typer(
    cls=Commands,
    name="recollect",
    help="Every way a neural network can remember a sequence, behind one call.",
    epilog="In a checkout, [bold]./recollect check[/bold], [bold]test[/bold] and [bold]bench[/bold] too.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings=HELP,
)


def command_with_flags(
    flags: Callable[[], Flags], arguments: Callable[[], Mapping[str, str]], **settings: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a command whose last parameter, `**flags`, gets those that settings declare beside its own.

    `arguments` has the help of arguments whose choices are registered elsewhere.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(function).parameters.values())[:-1]

        def make() -> Any:
            declared = [_parameter(name, flag, hint) for name, (flag, hint) in flags().items()]
            helps = arguments()
            named = [_with_help(each, helps[each.name]) if each.name in helps else each for each in own]
            _sign(function, [*named, *declared])
            alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
            alone.command(name=function.__name__, context_settings=HELP, **settings)(function)
            return typer.main.get_command(alone)

        DECLARED[function.__name__] = make
        _sign(function, own)
        return app.command(**settings)(function)

    return register


def _sign(function: Callable[..., None], parameters: list[inspect.Parameter]) -> None:
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]


def _with_help(argument: inspect.Parameter, text: str) -> inspect.Parameter:
    kind, info = get_args(argument.annotation)
    info = copy.copy(info)
    info.help = text
    return argument.replace(annotation=Annotated[kind, info])


def _parameter(name: str, flag: Flag, hint: Any) -> inspect.Parameter:
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    word = flag.name or name.replace("_", "-")
    several = any(get_origin(kind) is tuple for kind in kinds)
    kind = bool if bool in kinds else list[str] if several else int if int in kinds and not flag.short_numbers else str
    decl = f"--{word}/--no-{word}" if kind is bool else f"--{word}"
    annotation = Annotated[kind | None, typer.Option(decl, help=flag.help, show_default=False)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


Json = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]


@app.callback(invoke_without_command=True)
def top(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
    lang: Annotated[
        str | None,
        typer.Option(FLAG, help="en or zh (default: RECOLLECT_LANG, else the locale); behind the command too."),
    ] = None,  # `Commands.main` takes it out of what was typed
) -> None:
    if version:
        from .. import __version__

        print(__version__)
        raise typer.Exit


def name_place(param: typer.CallbackParam, value: Any) -> Any:
    """A file or folder as it was named, `~` filled in; an empty name is refused, or a default would take its place."""
    if isinstance(value, list | tuple):
        return [name_place(param, one) for one in value]
    if not isinstance(value, str):
        return value
    found = os.path.expanduser(value)
    if not found or found.startswith("~"):
        flag = param.opts[0] if param.param_type_name == "option" else str(param.name).upper()
        reason = f"{found!r}, and nobody of that name" if found else "an empty one"
        raise ValueError(f"{flag}: expected the name of a file or folder, found {reason}; name another")
    return found


Data = Annotated[list[str] | None, typer.Option(help="File, folder or known set; may be given more than once.")]
DataDir = Annotated[
    str | None, typer.Option(help="Folder with copies of the known sets (or RECOLLECT_DATA).", callback=name_place)
]
Device = Annotated[str, typer.Option(help="cpu, cuda, or auto.")]
Log = Annotated[str | None, typer.Option(help="tensorboard: write an event file into the run folder too.")]
Run = Annotated[str, typer.Argument(help="A run folder.", callback=name_place)]
Set = Annotated[list[str] | None, typer.Option("--set", help="key=value: any other setting.", show_default=False)]


def device_of(name: str) -> str:
    """A device of this machine; nothing is imported for the CPU."""
    if name == "cpu":
        return name
    from ..api.loading import check_device

    return check_device(name)


def print_json(content: object, file: TextIO | None = None) -> None:
    import json

    print(json.dumps(content, indent=1, ensure_ascii=False), file=file)


def print_notes(notes: Iterable[str]) -> None:
    """What a user should know beside the answer, on stderr."""
    for note in notes:
        print(localize_note(note), file=sys.stderr)


def open_model(run: str, *tasks: str, **options: Any) -> Any:
    """The trained model of a run of one of these tasks; what should be known of its weights is printed."""
    from ..api.loading import load_task

    model = load_task(run, *tasks, **options)
    print_notes(model.notes)
    return model


def numbered(path: str, number: int) -> str:
    """FILE.png for the first line, FILE-2.png for the second."""
    from pathlib import Path

    place = Path(path)
    return path if number == 1 else str(place.with_name(f"{place.stem}-{number}{place.suffix}"))


def open_stdin() -> BinaryIO:
    """The bytes of stdin."""
    if sys.stdin is None:
        raise ValueError("stdin: expected text, found it closed; give a file or a pipe")
    return sys.stdin.buffer


def read_stdin() -> str:
    """All of stdin as one text."""
    content = open_stdin().read(MOST_TEXT + 1)
    if len(content) > MOST_TEXT:
        raise ValueError(f"stdin: expected at most {MOST_TEXT:,} bytes, found more; give less of it")
    try:
        return content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"stdin: expected UTF-8, found a byte that is none ({error.reason})") from None


def is_live() -> bool:
    """Whether somebody types what a command reads."""
    return sys.stdin is not None and sys.stdin.isatty()


def check_utf8(flag: str, texts: Sequence[str] | None) -> None:
    """Refuse texts of the command line that hold bytes which are no UTF-8: Python has marked them there."""
    if any("\udc80" <= char <= "\udcff" for text in texts or () for char in text):
        raise ValueError(f"{flag}: expected UTF-8, found a byte that is none")


def lines_of_stdin(live: bool) -> Any:
    """The lines of stdin, parted at \\n alone; on a terminal with a prompt, elsewhere with a count on stderr."""
    import time

    source = open_stdin()
    if live:
        print(localize("one line at a time; end with Ctrl-D"), file=sys.stderr)
    began = last = time.monotonic()
    number = 0
    while True:
        if live:
            print("> ", end="", file=sys.stderr, flush=True)
        line = source.readline(MOST_LINE + 1)
        if not line:
            return
        number += 1
        if len(line) > MOST_LINE:
            raise ValueError(f"stdin, line {number}: expected at most {MOST_LINE:,} bytes, found more; break it up")
        try:
            yield (
                line.decode("utf-8").removesuffix("\n").removesuffix("\r").removeprefix("\ufeff" if number == 1 else "")
            )
        except UnicodeDecodeError as error:
            raise ValueError(
                f"stdin, line {number}: expected UTF-8, found a byte that is none ({error.reason})"
            ) from None
        if not live and time.monotonic() - last > 5:
            last = time.monotonic()
            said = f"{number:,} lines read, {number / (last - began):,.0f} a second"
            print(localize(said), file=sys.stderr, flush=True)
