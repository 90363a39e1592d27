"""Rows of results as tables in Markdown: one way for each task."""

import math
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath
from typing import Any

Row = dict[str, Any]
BY_HEART = ("timemachine",)  # trained on little text for so long that it is learned by heart
PUBLISHED = {  # MSE at 96, 192, 336, 720, as their papers give it
    "etth1": {
        "DLinear, looks back 336": (0.375, 0.405, 0.439, 0.472),
        "PatchTST/64, looks back 512": (0.370, 0.413, 0.422, 0.447),
        "SegRNN, looks back 720": (0.351, 0.392, 0.423, 0.466),
        "GRU point by point, looks back 720": (1.135, 1.123, 1.080, 1.089),
    },
    "ettm1": {
        "DLinear, looks back 336": (0.299, 0.335, 0.369, 0.425),
        "PatchTST/64, looks back 512": (0.293, 0.333, 0.369, 0.416),
        "SegRNN, looks back 720": (0.293, 0.328, 0.357, 0.410),
        "GRU point by point, looks back 720": (0.953, 1.124, 1.200, 1.173),
    },
}
HORIZONS = (96, 192, 336, 720)
MEMORY_TESTS = ("copy", "adding", "recall", "parity", "gap", "order", "clouds", "agreement", "nested")


def table(found: list[Row]) -> str:
    """The rows of one file, which are of one task."""
    return TABLES.get(found[0]["task"], texts)(found)


def markdown(columns: Sequence[str], lines: Iterable[Sequence[str]], rules: Iterable[str]) -> str:
    shown = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    shown += ["| " + " | ".join(cells) + " |" for cells in lines]
    return "\n".join(shown) + "\n\nRule: " + "; or ".join(sorted(set(rules))) + ".\n"


def grouped(found: list[Row], name: Callable[[Row], str]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in found:
        groups.setdefault(name(row), []).append(row)
    return groups


def spread(values: Sequence[float], shown: Callable[[float], str]) -> str:
    """Mean, and the range where there are several seeds."""
    mean = shown(statistics.mean(values))
    return mean if len(values) == 1 else f"{mean} ({shown(min(values))} – {shown(max(values))})"


def machines(group: Sequence[Row]) -> str:
    """Where they were trained, each machine once."""
    names = [row["machine"]["gpu"] or f"{row['machine']['cores']} CPU cores" for row in group]
    return ", ".join(dict.fromkeys(names))


def taken(group: Sequence[Row]) -> str:
    """Seconds of training, the mean over seeds."""
    seconds = [row["seconds"] for row in group if row["seconds"]]
    return f"{statistics.mean(seconds):.0f} s" if seconds else "–"


def percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def texts(found: list[Row]) -> str:
    """Models by their mean, with the range over seeds."""

    def name(row: Row) -> str:
        model, seconds = row["settings"]["model"], row["settings"].get("train", {}).get("seconds")
        parts = [f"`{PurePosixPath(run).name}`" for run in model.get("of", ())]
        words = f"`{row['model']}`" + (f" of {' and '.join(parts)}" if parts else "")
        words += f", {model['taps']} taps before each layer" if model.get("taps") else ""
        return words + (f", {seconds:.0f} s" if seconds else "")

    by_heart = any(row["data"] in BY_HEART for row in found)
    columns = ["model", "mean", "range", "seeds", "perplexity", "carried state", "parameters"]
    columns += ["training text at the end", "validation at the end"] if by_heart else []
    columns += ["training", "machine"]
    lines = []
    for model, group in sorted(grouped(found, name).items(), key=lambda item: statistics.mean(_values(item[1]))):
        values = _values(group)
        mean = statistics.mean(values)
        carried = [row["rules"]["stateful"]["nats_per_token"] for row in group if "stateful" in row["rules"]]
        lines.append(
            [
                model,
                f"{mean:.4f}",
                f"{min(values):.4f} – {max(values):.4f}" if len(values) > 1 else "–",
                str(len(values)),
                f"{math.exp(mean):.2f}",
                f"{statistics.mean(carried):.4f}" if carried else "–",
                f"{group[0]['entries']:,} n-grams" if group[0]["entries"] else f"{group[0]['params']:,}",
                *(_ends(group) if by_heart else []),
                taken(group),
                machines(group),
            ]
        )
    return markdown(columns, lines, _rules(found))


def _values(group: Sequence[Row]) -> list[float]:
    return [row["metric"]["value"] for row in group]


def _rules(found: Sequence[Row]) -> list[str]:
    return [row["metric"]["rule"] for row in found]


def _ends(group: list[Row]) -> list[str]:
    """Perplexities when a run ended, on the text it was trained on and on validation."""
    ends = [row["end"] for row in group if "end" in row]
    if not ends:
        return ["–", "–"]
    return [f"{math.exp(statistics.mean(end[name] for end in ends)):.2f}" for name in ("train", "valid")]


def translations(found: list[Row]) -> str:
    """One row a model, the best BLEU first."""

    def name(row: Row) -> str:
        score = row["settings"]["model"].get("score") if row["model"] == "attend" else None
        return f"`{row['model']}`" + (f", {score} score" if score else "")

    columns = ["model", "seeds", "BLEU", "cased BLEU", "chrF", "exact", "perplexity", "parameters", "training"]
    lines = []
    groups = grouped(found, name)
    for model, group in sorted(groups.items(), key=lambda item: -statistics.mean(_values(item[1]))):
        scores = [row["translated"] for row in group]
        cells = [model, str(len(group))]
        cells += [spread([s[key] for s in scores], lambda v: f"{v:.2f}") for key in ("bleu", "cased_bleu", "chrf")]
        cells.append(spread([s["exact"] for s in scores], percent))
        cells.append(f"{statistics.mean(row['forced']['perplexity'] for row in group):.3f}")
        lines.append([*cells, f"{group[0]['params']:,}", taken(group), machines(group)])
    exact = all(row["data"].startswith("numbers") for row in found)  # of prose nearly nothing is said in the same words
    return markdown([*columns, "machine"], lines, _rules(found)) + (_by_length(groups) if exact else "")


def _by_length(groups: dict[str, list[Row]]) -> str:
    """The share without a mistake among sources of each length."""
    shares = {model: [row["translated"]["exact_by_length"] for row in group] for model, group in groups.items()}
    lengths = sorted({length for group in shares.values() for own in group for length in own}, key=int)
    lines = [
        [model, *(spread([own[length] for own in group if length in own], percent) for length in lengths)]
        for model, group in shares.items()
    ]
    return "\n" + markdown(["words of the source", *lengths], lines, ["share of translations without a mistake"])


def series(found: list[Row]) -> str:
    """One row a model, one column a horizon; what others have published stands below."""

    def name(row: Row) -> str:
        segment = row["settings"]["model"].get("segment") or 1
        how = f", segments of {segment}" if segment > 1 else ", point by point" if row["model"] != "ar" else ""
        return f"`{row['model']}`{how}, looks back {row['settings']['series']['lookback']}"

    own = sorted({row["settings"]["series"]["horizon"] for row in found})
    lines = []
    for model, group in grouped(found, name).items():
        cells, least = [model], min(len(same) for same in grouped(group, lambda row: str(_horizon(row))).values())
        for horizon in own:
            here = [row["figures"] for row in group if _horizon(row) == horizon]
            shown = [spread([f[key] for f in here], lambda v: f"{v:.3f}") for key in ("mse", "mae")] if here else []
            cells.append(" / ".join(shown) or "–")
        lines.append([*cells, str(least), f"{group[0]['params']:,}", taken(group), machines(group)])
    for rival in ("naive", "seasonal naive"):
        shown = [next(row["rivals"][rival] for row in found if _horizon(row) == horizon) for horizon in own]
        lines.append([rival, *(f"{one['mse']:.3f} / {one['mae']:.3f}" for one in shown), "–", "0", "–", "–"])
    if tuple(own) == HORIZONS:
        for title, figures in PUBLISHED.get(found[0]["data"], {}).items():
            lines.append([f"{title} (published)", *(f"{figure:.3f}" for figure in figures), "", "", "", ""])
    columns = ["model, MSE / MAE", *map(str, own), "seeds", "parameters", "training", "machine"]
    return markdown(columns, lines, _rules(found)) + (_fed_back(found) if all("k_step" in row for row in found) else "")


def _fed_back(found: list[Row]) -> str:
    """Errors by how far ahead, when each prediction is the next input; in the units of the series."""

    def middle(values: Sequence[float]) -> str:
        return f"{statistics.median(values):.3f} ({min(values):.3f} – {max(values):.3f})"

    lines = []
    for model, group in grouped(found, lambda row: row["model"]).items():
        ahead = [middle([row["k_step"][k]["mse_raw"] for row in group]) for k in group[0]["k_step"]]
        free = [row["free_run"] for row in group]
        mean = f"{free[0]['mean_raw']:.3f}"
        lines.append([f"`{model}`", *ahead, middle([one["free_raw"] for one in free]), mean])
    columns = ["squared error ahead by", *found[0]["k_step"], "running freely", "predicting the mean"]
    return "\n" + markdown(columns, lines, [f"median and range over {len(found)} seeds, each prediction fed back"])


def _horizon(row: Row) -> int:
    return row["settings"]["series"]["horizon"]


def memories(found: list[Row]) -> str:
    """One row a model and dial: the share that is right, beside chance, and the bytes that remember it."""
    columns = ["model", "test", "seeds", "accuracy", found[0]["metric"]["name"], "of a guess", "bytes of state"]
    lines = []

    def test(row: Row) -> str:
        found = re.search(r"rows with ([^,;]+)", row["metric"]["rule"])
        varied = ", trained on all up to it" if "vary True" in row["data"] else ""
        start = re.search(r"spread=([\d.]+)", row.get("recipe", ""))
        started = f", vectors starting with {start[1]}" if start else ""
        return (found[1] if found else row["task"]) + varied + started

    def dial(group: list[Row]) -> int:
        found = re.search(r"\d+", test(group[0]))
        return int(found[0]) if found else 0

    groups = grouped(found, lambda row: f"{row['model']}, {test(row)}").values()
    for group in sorted(groups, key=lambda group: (dial(group), statistics.mean(_values(group)))):
        first = group[0]
        cells = [f"`{first['model']}`", test(first), str(len(group))]
        cells.append(spread([row["accuracy"] for row in group], percent))
        cells.append(spread(_values(group), lambda v: f"{v:.5f}"))
        cells.append(f"{min(first['baselines'].values()):.5f}")
        lines.append([*cells, f"{first['state_bytes']:,}", f"{first['params']:,}", taken(group), machines(group)])
    return markdown([*columns, "parameters", "training", "machine"], lines, _rules(found))


def labels(found: list[Row]) -> str:
    if "candidate" in found[0]:
        return candidates(found)
    speakers = list(dict.fromkeys(speaker for row in found if (speaker := _speaker(row))))  # a row for each
    counted = "speakers" if speakers else "seeds"
    columns = ["model", counted, "accuracy", *speakers]
    columns += ["F1", "calibration error", "parameters", "training", "machine"]
    lines = []
    groups = grouped(found, lambda row: row["model"])
    for model, group in sorted(groups.items(), key=lambda item: -statistics.mean(r["accuracy"] for r in item[1])):
        count = len({_speaker(row) for row in group}) if speakers else len(group)
        cells = [f"`{model}`", str(count), spread([row["accuracy"] for row in group], percent)]
        for speaker in speakers:
            own = [row["accuracy"] for row in group if _speaker(row) == speaker]
            cells.append(percent(statistics.mean(own)) if own else "–")
        cells += [f"{statistics.mean(row[key] for row in group):.4f}" for key in ("macro_f1", "calibration_error")]
        lines.append([*cells, f"{group[0]['params']:,}", taken(group), machines(group)])
    for guess, accuracy in found[0]["baseline_accuracy"].items():
        lines.append([guess, "–", percent(accuracy), *["–"] * (len(columns) - 3)])
    return markdown(columns, lines, _rules(found))


def _speaker(row: Row) -> str | None:
    """Who is heard in the test alone."""
    found = re.search(r"test_speaker=(\w+)", row.get("recipe", ""))
    return found[1] if found else None


def candidates(found: list[Row]) -> str:
    """Ways to train a recipe, by what the validation speaker of each fold has; the best of a fold stands out."""
    folds = list(dict.fromkeys(row["fold"] for row in found))
    groups = grouped(found, lambda row: f"`{row['model']}`, {row['candidate']}")
    values = {name: {row["fold"]: row["accuracy"] for row in group} for name, group in groups.items()}
    best = {fold: max(own.get(fold, 0) for own in values.values()) for fold in folds}
    lines = []
    for name, own in sorted(values.items(), key=lambda item: -statistics.mean(item[1].values())):
        cells = [
            ("**{}**" if own[fold] == best[fold] else "{}").format(percent(own[fold])) if fold in own else "–"
            for fold in folds
        ]
        lines.append([name, percent(statistics.mean(own.values())), *cells])
    heard = {row["fold"]: row["validation"] for row in found}
    columns = ["candidate", "mean", *(f"{fold} (by {heard[fold]})" for fold in folds)]
    return markdown(columns, lines, {"all recordings of the validation speaker, after the last step"})


def captions(found: list[Row]) -> str:
    """One row a run, with the same captions given to other pictures, and one caption for all."""
    columns = ["model", "captions of", "seeds", "BLEU-1", "BLEU-4", "exact", "nats/token", "parameters", "training"]

    def name(row: Row) -> str:
        return f"`{row['model']}`" + (
            ", self-attention in the CNN" if row["settings"]["model"].get("self_attention") else ""
        )

    lines = []
    groups = grouped(found, name)
    for model, group in sorted(groups.items(), key=lambda item: -statistics.mean(_values(item[1]))):
        for pictures, scores in (
            ("their pictures", [row["described"] for row in group]),
            ("other pictures", [row["described"]["shuffled"] for row in group]),
        ):
            nats = [row["forced" if pictures == "their pictures" else "forced_shuffled"] for row in group]
            cells = [model, pictures, str(len(group))]
            cells += [spread([s[key] for s in scores], lambda v: f"{v:.2f}") for key in ("bleu1", "bleu4")]
            cells.append(spread([s["exact"] for s in scores], percent))
            cells.append(f"{statistics.mean(n['nats_per_token'] for n in nats):.3f}")
            lines.append([*cells, f"{group[0]['params']:,}", taken(group), machines(group)])
    constant = found[0]["constant"]
    shown = [f"{constant['bleu1']:.2f}", f"{constant['bleu4']:.2f}", percent(constant["exact"])]
    lines.append(["one caption", "all pictures", "–", *shown, "–", "–", "–", "–"])
    return markdown([*columns, "machine"], lines, _rules(found)) + _gazes(groups)


def films(found: list[Row]) -> str:
    """Shares of captions without a mistake by number of events, of seen combinations and of held-out ones."""
    counts = sorted({int(name.split()[0]) for row in found for name in row["described"].get("exact_by", {})})
    columns = ["memory", "combinations", "seeds", *(f"{n} event{'s' * (n > 1)}" for n in counts)]
    columns += ["BLEU-4", "nats/token", "parameters", "training"]

    def name(row: Row) -> str:
        own = row["settings"]["model"]
        words = f"`{row['model']}`" + (" at each cell" if own.get("grid") else "")
        words += ", single frames" if own.get("motion") == "none" else ""
        return words + (", no shortcut" if own.get("block") == "plain" else "")

    lines = []
    for model, group in sorted(grouped(found, name).items(), key=lambda item: -statistics.mean(_values(item[1]))):
        for kind, scored in (("seen", "exact"), ("seen", "any_order"), ("held out", "exact")):
            shares = [[row["described"]["exact_by"].get(_events(n, kind)) for row in group] for n in counts]
            cells = [spread([one[scored] for one in some], percent) if all(some) else "–" for some in shares]
            whole = ["–", "–", "–", "–"]
            if scored == "any_order":
                kind = "seen, in any order"
            elif kind == "seen":
                bleu = spread([row["described"]["bleu4"] for row in group], lambda v: f"{v:.2f}")
                nats = f"{statistics.mean(row['forced']['nats_per_token'] for row in group):.3f}"
                whole = [bleu, nats, f"{group[0]['params']:,}", taken(group)]
            lines.append([model, kind, str(len(group)), *cells, *whole])
    return markdown(columns, lines, _rules(found))


def _events(count: int, kind: str) -> str:
    return f"{count} event{'s' * (count > 1)}, {kind}"


def _gazes(groups: dict[str, list[Row]]) -> str:
    """How much of the attention lies on what a word names, where the true boxes are known."""
    lines = []
    for model, group in groups.items():
        gazes = [row["gaze"] for row in group if row.get("gaze")]
        if gazes:
            cells = [percent(statistics.mean(gaze[key] for gaze in gazes)) for key in ("named", "other", "even")]
            lines.append([model, *cells, f"{sum(gaze['words'] for gaze in gazes):,}"])
    columns = ["attention on", "what the word names", "another object", "spread evenly, it would be", "words"]
    return "\n" + markdown(columns, lines, ["share of the weights inside the true box"]) if lines else ""


def ratings(found: list[Row]) -> str:
    columns = ["model", "seeds", "RMSE", "MAE", "parameters", "training", "machine"]
    lines = []
    groups = grouped(found, lambda row: row.get("recipe", row["model"]).split("/")[-1].split(":")[0].split("@")[0])
    for model, group in sorted(groups.items(), key=lambda item: statistics.mean(r["rmse"] for r in item[1])):
        cells = [f"`{model}`", str(len(group))]
        cells += [spread([row[key] for row in group], lambda v: f"{v:.4f}") for key in ("rmse", "mae")]
        lines.append([*cells, f"{group[0]['params']:,}", taken(group), machines(group)])
    for guess, value in found[0]["baselines"].items():
        lines.append([guess, "–", f"{value:.4f}", "–", "–", "–", "–"])
    return markdown(columns, lines, _rules(found))


def transcripts(found: list[Row]) -> str:
    """One row a run: character errors of strings as long as in training, then at each length."""
    lengths = sorted({(entry["upto"], entry["trained"]) for row in found for entry in row["transcribed"]["by_length"]})
    ahead = [f"{upto}{'' if trained else ' (longer)'}" for upto, trained in lengths]
    columns = ["model", "seeds", "character errors", "without a mistake", *ahead, "parameters", "training", "machine"]

    def name(row: Row) -> str:
        own = row["settings"]["model"]
        if row["model"] != "ctc":
            return f"`{row['model']}`"
        return f"`ctc` over `{own['encoder']}`{', both ways' if own.get('both_ways') else ''}"

    lines = []
    groups = grouped(found, name)
    for model, group in sorted(groups.items(), key=lambda item: statistics.mean(_values(item[1]))):
        scores = [row["transcribed"] for row in group]
        cells = [model, str(len(group))]
        cells += [spread([score[key] for score in scores], percent) for key in ("error", "accuracy")]
        for upto, _ in lengths:
            at = [entry["error"] for score in scores for entry in score["by_length"] if entry["upto"] == upto]
            cells.append(spread(at, percent) if at else "–")
        lines.append([*cells, f"{group[0]['params']:,}", taken(group), machines(group)])
    constant = found[0]["constant"]
    rest = ["–"] * (len(lengths) + 3)
    lines.append(["one text for all", "–", percent(constant["error"]), percent(constant["accuracy"]), *rest])
    return markdown(columns, lines, _rules(found))


TABLES = {
    "transcribe": transcripts,
    "text": texts,
    "translation": translations,
    "series": series,
    "captions": captions,
    "films": films,
    "labels": labels,
    "ratings": ratings,
} | dict.fromkeys(MEMORY_TESTS, memories)
