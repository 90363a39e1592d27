"""What the view of runs costs: python -m tools.studio_runs [--runs 300 --points 2000] → results/studio-runs.json

`--docs` measures nothing and writes the table of docs/studio.md and its Chinese page from that file.

Runs are made by hand as a training leaves them. Measured are, in one process: the first look at all of them, a look at
which nothing changed and one at which ten had grown, a chart of 6 and of all runs and what is sent when ten had grown;
then in chromium the seconds from the click to the first chart, and the server's work with pages open that nobody uses.
"""

import argparse
import json
import random
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recollect.serve import guard, server
from recollect.studio.app import Studio
from recollect.studio.limits import Limits
from recollect.studio.records import chart
from recollect.studio.records.places import open_roots
from recollect.studio.records.watch import Watch
from recollect.training.folder import MAGIC, VERSION, commit, machine

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "results" / "studio-runs.json"
MODELS = ("lstm", "gru", "rnn", "transformer", "delta", "gated-delta")
GROWN, ADDED = 10, 5  # runs that grow between two looks, and rows that each gets
TOKEN = guard.make_token()


def make_runs(folder: Path, runs: int, points: int) -> list[Path]:
    """Finished and unfinished runs in three folders."""
    drawn = random.Random(0)
    made = []
    for number in range(runs):
        model = MODELS[number % len(MODELS)]
        path = folder / f"part-{number % 3}" / f"text-{model}-{number}"
        path.mkdir(parents=True)
        config = {
            "format": MAGIC, "version": VERSION, "task": "text", "data": {"data": ["book.txt"]}, "text": {"batch": 32},
            "model": {"name": model, "width": 64 + number}, "train": {"steps": 10 * points, "lr": 1e-3, "seed": number},
            "corpus": {"name": "book", "fingerprint": "0"}, "generated": None, "init": None, "metric": "nats_per_token",
        }  # fmt: skip
        (path / "config.json").write_text(json.dumps(config, indent=1))
        (path / "manifest.json").write_text(json.dumps(
            {"command": "recollect train text", "commit": "0", "machine": {}, "date": "2026-01-02T03:04:05+00:00"}
        ))  # fmt: skip
        with (path / "metrics.jsonl").open("w") as file:
            file.writelines(line_of(step, drawn) for step in range(1, points + 1))
        made.append(path)
    return made


def line_of(step: int, drawn: random.Random) -> str:
    row = {
        "step": 10 * step, "tokens": 40_960 * step, "flops": 1.5e9 * step, "seconds": 0.51 * step,
        "loss": 1.4 + 3 / step**0.5 + drawn.gauss(0, 0.05), "lr": 1e-3, "norm": 1 + drawn.random(),
        "tokens_per_second": 80_000 + 1_000 * drawn.random(), "memory": 412_000_000,
    }  # fmt: skip
    return json.dumps(row) + "\n"


def grow(paths: list[Path], at: int) -> None:
    drawn = random.Random(at)
    for path in paths:
        with (path / "metrics.jsonl").open("a") as file:
            file.writelines(line_of(at + step, drawn) for step in range(ADDED))


def measure(work: Callable[[], Any]) -> dict[str, float]:
    """CPU seconds and seconds of one call."""
    cpu, began = time.process_time(), time.perf_counter()
    work()
    return {"cpu": round(time.process_time() - cpu, 4), "seconds": round(time.perf_counter() - began, 4)}


def size(content: Any) -> int:
    return len(json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode())


def measure_table(folder: Path, paths: list[Path], points: int) -> dict[str, Any]:
    watch = Watch(open_roots(sorted(folder.iterdir())), look=0, search=1e9)
    found: dict[str, Any] = {"first_look": measure(watch.look)}
    first = watch.changes("")
    found["first_answer_bytes"] = size(first.to_json())
    looks = [measure(watch.look) for _ in range(20)]
    found["quiet_look_cpu"] = round(sum(each["cpu"] for each in looks) / len(looks), 5)
    cursor = first.cursor
    grow(paths[:GROWN], points)
    found["grown_look"] = measure(watch.look)
    changes = watch.changes(cursor)
    assert len(changes.runs) == GROWN, len(changes.runs)
    found["grown_answer_bytes"] = size(changes.to_json())
    names = [run.id for run in watch.runs()]
    by_path = {str(watch.run(name)[1]): name for name in names}  # type: ignore[index]
    grown = [by_path[str(path.resolve())] for path in paths[:GROWN]]
    for count in (6, len(names)):
        chosen = (grown + [name for name in names if name not in grown])[:count]
        found[f"chart_of_{count}"] = measure_chart(watch, paths, chosen, points)
    return found


def measure_chart(watch: Watch, paths: list[Path], chosen: list[str], points: int) -> dict[str, Any]:
    def draw(asked: chart.Asked) -> dict[str, Any]:
        runs = [watch.run(name) for name in chosen]
        return chart.draw(asked, [(run, watch.curves.read(path / "metrics.jsonl")) for run, path in runs])  # type: ignore[misc]

    answers: list[dict[str, Any]] = []
    watch.curves.kept.clear()
    asked = chart.Asked(runs=chosen, x="step", y="loss", smooth=0.6, width=1160)
    first = measure(lambda: answers.append(draw(asked)))
    again = measure(lambda: answers.append(draw(asked)))
    rows = {line["id"]: line["rows"] for line in answers[-1]["lines"]}
    known = chart.Asked(**{**vars(asked), "scale": answers[-1]["scale"], "rows": rows})
    quiet = measure(lambda: answers.append(draw(known)))
    grow(paths[:GROWN], points + ADDED)
    grown = measure(lambda: answers.append(draw(known)))
    return {
        "first": first | {"bytes": size(answers[0])}, "read_before": again | {"bytes": size(answers[1])},
        "nothing_new": quiet | {"bytes": size(answers[2])},
        "grown": grown | {"bytes": size(answers[3]), "lines": len(answers[3]["lines"])},
        "points_of_a_line": max(len(line["x"]) for line in answers[0]["lines"]),
    }  # fmt: skip


def measure_pages(folder: Path, paths: list[Path], pages: int) -> dict[str, Any]:
    """In chromium: from opening the view to the first chart, then all runs chosen; the server's work meanwhile."""
    from playwright.sync_api import sync_playwright

    studio = Studio(sorted(folder.iterdir()), [], Limits())
    sock = server.bind("127.0.0.1", 0)
    port = sock.getsockname()[1]
    app = studio.application(hosts=guard.host_names("127.0.0.1", port), token=TOKEN, cookie=f"recollect_{port}")
    running = server.make_server(app, studio.limits, studio.close)
    sock.listen(64)
    threading.Thread(target=server.run, args=(running, sock), daemon=True).start()
    while not running.started:
        time.sleep(0.02)
    url, found = f"http://127.0.0.1:{port}", {}
    drawn = "() => document.querySelectorAll('polyline[data-run]').length >= {}"
    with sync_playwright() as playwright:
        path = next(path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name)))
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(120_000)
        page.goto(f"{url}/?token={TOKEN}")
        began = time.perf_counter()
        page.goto(f"{url}/#runs?y=loss")
        page.wait_for_function(drawn.format(1))
        found["first_chart_seconds"] = round(time.perf_counter() - began, 3)
        began = time.perf_counter()
        page.get_by_label("Choose all runs that are shown").check()
        page.wait_for_function(drawn.format(len(paths)))
        found["chart_of_all_seconds"] = round(time.perf_counter() - began, 3)
        found["frames"] = page.evaluate(
            """() => new Promise((done) => { const times = []; const box = document.querySelector('.curves-chart');
            const area = box.getBoundingClientRect(); let x = 0;
            const tick = (now) => { times.push(now); x += 7;
              box.dispatchEvent(new PointerEvent(
                'pointermove', {clientX: area.left + 60 + x, clientY: area.top + 200}));
              if (times.length < 121) requestAnimationFrame(tick);
              else { const gaps = times.slice(1).map((each, i) => each - times[i]).sort((a, b) => a - b);
                done({median_ms: gaps[60], worst_of_20_ms: gaps[114]}); } };
            requestAnimationFrame(tick); })"""
        )
        page.close()
        for _ in range(pages):
            other = browser.new_context().new_page()
            other.set_default_timeout(120_000)
            other.goto(f"{url}/?token={TOKEN}")
            other.goto(f"{url}/#runs?y=loss")
            other.wait_for_function(drawn.format(1))
        cpu, began = time.process_time(), time.perf_counter()
        time.sleep(10)
        took = time.perf_counter() - began
        found["pages_open"] = pages
        found["pages_open_cpu_share"] = round((time.process_time() - cpu) / took, 4)
        browser.close()
    running.should_exit = True
    return found


BLOCK = re.compile(r"(?<=<!-- studio-runs -->\n).*?(?=<!-- end -->)", re.S)
HEADS = {
    "studio.md": ("{runs} runs of {points:,} points each", "processor", "bytes sent"),
    "studio.zh.md": ("{runs} 个运行，每个 {points:,} 个点", "处理器时间", "发送的字节"),
}
ROWS = {
    "studio.md": (
        "the table, first look", "a look at which nothing changed", "a look at which ten runs had grown",
        "a chart of all runs, first", "the same when ten runs had grown", "a chart of six runs, first",
    ),
    "studio.zh.md": (
        "表格，第一次查看", "没有变化的一次查看", "十个运行有增长的一次查看", "所有运行的图表，第一次",
        "同一图表，十个运行有增长", "六个运行的图表，第一次",
    ),
}  # fmt: skip


def as_table(found: dict[str, Any], page: str) -> str:
    """The figures as a table of a page."""
    table = found["table"]
    every, few = table[f"chart_of_{found['runs']}"], table["chart_of_6"]
    cells = (
        (table["first_look"]["cpu"], table["first_answer_bytes"]), (table["quiet_look_cpu"], 0),
        (table["grown_look"]["cpu"], table["grown_answer_bytes"]), (every["first"]["cpu"], every["first"]["bytes"]),
        (every["grown"]["cpu"], every["grown"]["bytes"]), (few["first"]["cpu"], few["first"]["bytes"]),
    )  # fmt: skip
    head, *rest = HEADS[page]
    lines = [f"| {' | '.join([head.format(**found), *rest])} |", "|---|---|---|"]
    lines += [f"| {row} | {1e3 * cpu:,.0f} ms | {size:,} |" for row, (cpu, size) in zip(ROWS[page], cells, strict=True)]
    return "\n".join(lines) + "\n"


def fill_page(page: str, text: str) -> str:
    """A page with its table anew."""
    table = as_table(json.loads(OUT.read_text()), page)
    return BLOCK.sub(lambda _: table, text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--points", type=int, default=2_000)
    parser.add_argument("--pages", type=int, default=20)
    parser.add_argument("--docs", action="store_true", help="write the tables of the docs alone")
    asked = parser.parse_args()
    if asked.docs:
        for page in HEADS:
            path = ROOT / "docs" / page
            path.write_text(fill_page(page, path.read_text(encoding="utf-8")), encoding="utf-8")
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        paths = make_runs(folder, asked.runs, asked.points)
        found = {
            "command": f"python -m tools.studio_runs {' '.join(sys.argv[1:])}".strip(), "commit": commit(),
            "machine": machine(), "runs": asked.runs, "points": asked.points,
            "metrics_bytes": sum((path / "metrics.jsonl").stat().st_size for path in paths),
            "table": measure_table(folder, paths, asked.points), "page": measure_pages(folder, paths, asked.pages),
        }  # fmt: skip
    OUT.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
