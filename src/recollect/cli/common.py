"""What the commands share: the application, the flags that several have, ways in and out."""

import inspect
import sys
import types
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TextIO, Union, get_args, get_origin

import typer
from typer.core import TyperGroup

from ..core.settings import Flag

Flags = Mapping[str, tuple[Flag, Any]]  # setting → its flag and its type
HELP = {"help_option_names": ["-h", "--help"]}
DECLARED: dict[str, Callable[[], Any]] = {}  # command → how it is made with its declared flags


class Commands(TyperGroup):
    """The commands; one whose flags are declared elsewhere is made with them when it is called, not before."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, DECLARED[name]() if name in DECLARED else command, rest


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
    return argument.replace(annotation=Annotated[str, typer.Argument(help=text)])


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
) -> None:
    if version:
        from .. import __version__

        print(__version__)
        raise typer.Exit


Data = Annotated[list[str] | None, typer.Option(help="File, folder or known set; may be given more than once.")]
DataDir = Annotated[str | None, typer.Option(help="Folder with copies of the known sets (or RECOLLECT_DATA).")]
Device = Annotated[str, typer.Option(help="cpu, cuda, or auto.")]
Run = Annotated[str, typer.Argument(help="A run folder.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="key=value: any other setting.", show_default=False)]


def device_of(name: str) -> str:
    if name == "cpu":
        return name
    import torch

    count = torch.cuda.device_count()
    if name == "auto":
        return "cuda" if count else "cpu"
    there = ["cuda", *(f"cuda:{number}" for number in range(count))] if count else []
    if name not in there:
        use = ", ".join([*there, "cpu"])
        raise ValueError(f"--device: expected a device of this machine, found {name!r}; use {use} or auto")
    return name


def print_json(content: object, file: TextIO | None = None) -> None:
    import json

    print(json.dumps(content, indent=1, ensure_ascii=False), file=file)


def numbered(path: str, number: int) -> str:
    """FILE.png for the first line, FILE-2.png for the second."""
    from pathlib import Path

    place = Path(path)
    return path if number == 1 else str(place.with_name(f"{place.stem}-{number}{place.suffix}"))


def lines_of_stdin(live: bool) -> Any:
    """The lines of stdin, parted at \\n alone; on a terminal with a prompt, elsewhere with a count on stderr."""
    import time

    if live:
        print("one line at a time; end with Ctrl-D", file=sys.stderr)
    began = last = time.monotonic()
    number = 0
    while True:
        if live:
            print("> ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.buffer.readline()
        if not line:
            return
        number += 1
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
            print(f"{number:,} lines read, {number / (last - began):,.0f} a second", file=sys.stderr, flush=True)
