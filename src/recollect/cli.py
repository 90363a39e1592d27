"""The command line: parses, calls, prints. Nothing heavy is imported before a command needs it."""

import sys
from typing import Annotated

import typer

app = typer.Typer(
    name="recollect",
    help="Every way a neural network can remember a sequence, behind one call.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]


@app.callback(invoke_without_command=True)
def top(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    if version:
        from . import __version__

        print(__version__)
        raise typer.Exit


@app.command(epilog="Example: [bold]recollect models --json[/bold]")
def models(json: Json = False) -> None:
    """The lineage: what each layer remembers, how it updates that and how it reads it."""
    from .layers import lineage
    from .report.table import render

    if json:
        rows = [vars(entry) | {"card": entry.card._asdict()} for entry in lineage.entries()]
        _print_json({"width": lineage.WIDTH, "source": lineage.SOURCE, "layers": rows})
    else:
        title = f"The lineage. bytes: of state at width {lineage.WIDTH}, after 1 → after 1,000 steps"
        print(render(title, lineage.COLUMNS, (entry.cells() for entry in lineage.entries()), lines=True), end="")


def _print_json(content: object) -> None:
    import json

    print(json.dumps(content, indent=1, ensure_ascii=False))


def main() -> None:
    """Run the command line; an error of the user's is one line on stderr and exit code 1."""
    try:
        app()
    except (ValueError, OSError) as error:
        # Our own errors are ValueErrors told in one line; an OSError names its file.
        print(f"recollect: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
