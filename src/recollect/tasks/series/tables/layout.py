"""What the columns of a table are and how its cells are read; shared by training, evaluation, forecasts and exports."""

from dataclasses import dataclass, fields
from typing import Any, Literal

from ....core.settings import ContractError, option

HeaderName = Literal["auto", "yes", "no"]
AggregateName = Literal["mean", "sum", "last"]
DecimalName = Literal["auto", "point", "comma"]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The columns of a table by name, its grid, and how its cells are written.

    `target` are the columns to forecast (none: all that have no other use); `known` are known ahead, such as a weather
    forecast, `past` only up to the present. With `id` every row belongs to the series that this column names (a long
    table); without it the columns are the series (a wide one).
    """

    target: tuple[str, ...] = option((), "Of series: a column to forecast; may be repeated.")
    time: str | None = option(None, "Of series: the column that holds the time.")
    id: str | None = option(None, "Of series: the column that names the series of each row (a long table).")
    known: tuple[str, ...] = option((), "Of series: a column that is known ahead; may be repeated.")
    past: tuple[str, ...] = option((), "Of series: a column that is known only so far; may be repeated.")
    every: str | None = option(None, "Of series: resample to this step, such as 15min, 1h, 1d, 1mo.")
    aggregate: AggregateName = "mean"
    zone: str | None = option(None, "Of series: the time zone of times without one, such as Europe/Berlin.")
    time_format: str | None = option(None, "Of series: how times are written, such as %d.%m.%Y %H:%M.")
    decimal: DecimalName = "auto"
    encoding: str | None = option(None, "Of files that are no UTF-8: their encoding, such as gb18030.")
    header: HeaderName = "auto"

    def check_names(self) -> None:
        """Refuse what is no name of a column, and a column with two uses."""
        for name in ("target", "known", "past"):
            value = getattr(self, name)
            if not isinstance(value, tuple) or not all(isinstance(part, str) for part in value):
                raise ContractError(f"series: expected {name} to be names, found {value!r}")
        for name in ("time", "id", "every", "zone", "time_format", "encoding"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise ContractError(f"series: expected {name} to be text, found {value!r}")
        uses = [(use, name) for use in ("target", "known", "past") for name in getattr(self, use)]
        uses += [(use, name) for use in ("time", "id") if (name := getattr(self, use)) is not None]
        for at, (use, name) in enumerate(uses):
            other = next((first for first, same in uses[:at] if same == name and first != use), None)
            if other is not None:
                raise ContractError(f"series: expected column {name!r} in one place, found it in {other} and {use}")


def layout_of(settings: Any) -> Layout:
    """The layout in settings that have its fields among others."""
    return Layout(**{own.name: getattr(settings, own.name) for own in fields(Layout)})
