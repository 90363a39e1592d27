"""From a key to its picture, many pages at once, an hour of typing: python -m tools.studio_bench

`recollect studio` runs in a process of its own over the lanes that ship.

keys    a browser types a text; the time from each key to the picture of the last lane, and the processor's time of the
        server and of the browser for it, which other work on the machine does not lengthen.
pages   so many pages with the lanes of the start type at once; the time of a key of each
hour    18,000 keys (five a second for an hour) as fast as they are answered: texts that grow and are taken back,
        branches, edits of states; the memory of the server all the while

The rows go to results/studio.json.
"""

import argparse
import contextlib
import json
import os
import shutil
import struct
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

from recollect.training.folder import commit, machine

ROOT = Path(__file__).parents[1]
RUN, TOKEN = "lane-lstm", "a-token-of-the-measurement"
LANES = (
    "lane-lstm", "lane-transformer", "lane-gated-delta", "lane-ttt-linear", "lane-ngram", "lane-rnn", "lane-gru",
    "lane-tcn", "lane-mlp", "lane-linear-transformer", "lane-retention", "lane-gla",
)  # fmt: skip
PAGES, MARK = {"docs/studio.md": "en", "docs/studio.zh.md": "zh"}, "studio"
COUNTS = (1, 4, 8, 12)
TEXT = "First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\nSpeak, speak.\n"
PATIENCE = 60  # seconds that a picture may take
OPENED, KEYS = 20, 12  # pages at once, keys of each
HOUR = 18_000
HOUR_LANES = ("lane-lstm", "lane-transformer", "lane-delta")
LONGEST = 160  # characters, after which a text is taken back
WATCH = """() => {
  window.times = [];
  const field = document.querySelector('textarea');
  let begun = 0;
  field.addEventListener('input', () => { begun = performance.now() }, true);
  new MutationObserver(() => {
    const lanes = [...document.querySelectorAll('.lane')];
    if (!begun || !lanes.every(lane => lane.dataset.read === String(field.value.length))) return;
    const first = begun;
    begun = 0;
    requestAnimationFrame(() => requestAnimationFrame(now => window.times.push(now - first)));
  }).observe(document.querySelector('.lanes'), {subtree: true, attributeFilter: ['data-read']});
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=40)
    parser.add_argument("--hour", type=int, default=HOUR, help="keys of the hour")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "studio.json")
    parser.add_argument("--pages", action="store_true", help="only write the pages anew")
    options = parser.parse_args()
    if not options.pages:
        options.out.write_text(json.dumps(measure(options.keys, options.hour), indent=1) + "\n", encoding="utf-8")
    content = json.loads(options.out.read_text(encoding="utf-8"))
    print(json.dumps({name: content[name] for name in ("load", "keys", "pages", "hour")}, indent=1))
    for page, language in PAGES.items():
        path = ROOT / page
        path.write_text(place_table(path.read_text(encoding="utf-8"), table(content, language)), encoding="utf-8")


def measure(keys: int, hour: int) -> dict[str, Any]:
    return {
        "about": __doc__,
        "command": f"python -m tools.studio_bench --keys {keys} --hour {hour}",
        "commit": commit(),
        "machine": machine(),
        "load": os.getloadavg()[0],
        "keys": [measure_keys(count, keys) for count in COUNTS],
        "pages": measure_pages(),
        "hour": measure_hour(hour),
    }


def table(content: dict[str, Any], language: str) -> str:
    """The figures for a page."""
    chinese = language == "zh"
    head = (
        ("泳道", "从按键到图，中位数", "十次中的第九次", "服务器的处理器时间", "浏览器的处理器时间")
        if chinese
        else ("lanes", "key to picture, median", "nine of ten within", "the processor's time, server", "browser")
    )
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row in content["keys"]:
        times = (row[name] for name in ("median_ms", "ninth_of_ten_ms", "server_cpu_ms", "browser_cpu_ms"))
        lines.append(f"| {row['lanes']} | " + " | ".join(f"{time:.0f} ms" for time in times) + " |")
    pages, hour = content["pages"], content["hour"]
    if chinese:
        text = (
            f"{pages['pages']} 个网页同时输入，各 {pages['lanes']} 条泳道：每个按键的中位数 "
            f"{pages['median_ms']:.0f} ms，最慢 {pages['slowest_ms']:.0f} ms，"
            f"服务器的处理器时间 {pages['server_cpu_ms']:.0f} ms。"
            f"一小时的输入（{hour['keys']:,} 个按键，{hour['lanes']} 条泳道，带分支和改动）：服务器占 "
            f"{hour['memory_mb'][-1]:.0f} MB，比前三分之一结束时多 {hour['growth_mb']:.1f} MB。"
            f"测量时两个核上的负载为 {content['load']:.0f}。"
        )
    else:
        text = (
            f"{pages['pages']} pages that type at once, {pages['lanes']} lanes each: {pages['median_ms']:.0f} ms a key "
            f"in the median, {pages['slowest_ms']:.0f} ms at most, {pages['server_cpu_ms']:.0f} ms of the server's "
            f"processor. An hour of typing ({hour['keys']:,} keys, {hour['lanes']} lanes, with branches and changed "
            f"states): the server holds {hour['memory_mb'][-1]:.0f} MB, {hour['growth_mb']:.1f} MB more than after "
            f"its first third. The load of the machine was {content['load']:.0f} on two cores."
        )
    return "\n".join([*lines, "", text])


def place_table(page: str, text: str) -> str:
    """The page with the table between its marks."""
    before, begin, rest = page.partition(f"<!-- {MARK} -->\n")
    _, end, after = rest.partition("<!-- end -->")
    assert begin and end, f"expected the marks of {MARK} in the page, found none"  # noqa: PT018
    return f"{before}{begin}{text}\n{end}{after}"


@contextlib.contextmanager
def studio() -> Iterator[tuple[str, int]]:
    """The address of a studio in a process of its own, and the number of that process."""
    words = [sys.executable, "-m", "recollect", "studio", *LANES, *HOUR_LANES[2:], "--port", "0", "--json"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=os.environ | {"RECOLLECT_TOKEN": TOKEN})
    try:
        assert process.stdout is not None
        lines = []
        while not lines or lines[-1].rstrip() != "}":
            lines.append(process.stdout.readline())
            assert lines[-1], "expected the address of the studio, found its end"
        yield json.loads("".join(lines))["url"], process.pid
    finally:
        process.terminate()
        process.wait(30)


def measure_keys(count: int, keys: int) -> dict[str, Any]:
    """The milliseconds from a key to the picture of the last of so many lanes."""
    from playwright.sync_api import sync_playwright

    with studio() as (url, pid), sync_playwright() as playwright:
        path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(120_000)
        page.goto(f"{url}/?token={TOKEN}")
        page.wait_for_selector("section.view:not([aria-busy])")
        page.goto(f"{url}/#text?lanes={','.join(LANES[:count])}&text={TEXT[:20].strip()}")
        page.reload()
        page.wait_for_selector("section.view:not([aria-busy])")
        page.evaluate(WATCH)
        page.locator("textarea").press("End")
        before, drawn = cpu_seconds(pid), children_seconds(pid)
        for number, letter in enumerate((TEXT * 9)[:keys]):
            page.keyboard.insert_text(letter)
            deadline = time.monotonic() + PATIENCE
            while page.evaluate("window.times.length") <= number:
                problem = page.locator("#problem").inner_text()
                assert time.monotonic() < deadline, f"expected the picture of key {number + 1}, found none: {problem}"
                time.sleep(0.005)
        own, drawn = (cpu_seconds(pid) - before) / keys, (children_seconds(pid) - drawn) / keys
        times = sorted(page.evaluate("window.times"))
        browser.close()
    return {
        "lanes": count,
        "keys": keys,
        "median_ms": round(median(times), 1),
        "ninth_of_ten_ms": round(times[int(0.9 * len(times))], 1),
        "server_cpu_ms": round(1_000 * own, 1),
        "browser_cpu_ms": round(1_000 * drawn, 1),
    }


class Reader:
    """A page without a browser: it reads texts and takes what comes."""

    def __init__(self, url: str, lanes: tuple[str, ...]) -> None:
        self.url, self.lanes = url, lanes
        self.page = json.loads(self.post("/studio/text/pages", {"lanes": lanes}))["id"]

    def post(self, path: str, body: dict[str, Any]) -> bytes:
        headers = {"content-type": "application/json", "authorization": f"Bearer {TOKEN}"}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers)  # noqa: S310
        with urllib.request.urlopen(request) as answer:  # noqa: S310
            return answer.read()

    def read(self, *lines: dict[str, Any], have: int = 0) -> int:
        """How many frames came."""
        asked = {"lines": lines, "show": {}, "have": {name: [have] * len(lines) for name in self.lanes}}
        content, count = self.post(f"/studio/text/pages/{self.page}/read", asked), 0
        while content:
            (length,) = struct.unpack("<I", content[:4])
            content, count = content[4 + length :], count + 1
        return count


def measure_pages() -> dict[str, Any]:
    """Seconds of a key where many pages type at once."""
    lanes = LANES[:6]

    def type_keys(reader: Reader) -> list[float]:
        times = []
        for number in range(KEYS):
            begun = time.perf_counter()
            found = reader.read({"text": TEXT[: 20 + number]}, have=20 + number - 1)
            assert found == len(lanes)
            times.append(time.perf_counter() - begun)
        return times[1:]

    with studio() as (url, pid):
        readers = [Reader(url, lanes) for _ in range(OPENED)]
        for reader in readers:
            reader.read({"text": TEXT[:19]})
        before = cpu_seconds(pid)
        with ThreadPoolExecutor(OPENED) as pool:
            times = sorted(each for found in pool.map(type_keys, readers) for each in found)
        own = (cpu_seconds(pid) - before) / (OPENED * KEYS)
    return {
        "pages": OPENED,
        "lanes": len(lanes),
        "keys": OPENED * KEYS,
        "median_ms": round(1_000 * median(times), 1),
        "slowest_ms": round(1_000 * times[-1], 1),
        "server_cpu_ms": round(1_000 * own, 1),
    }


def measure_hour(keys: int) -> dict[str, Any]:
    """Memory of the server while a page types for an hour."""
    with studio() as (url, pid):
        reader = Reader(url, HOUR_LANES)
        memory, text = [], ""
        begun = time.perf_counter()
        for number in range(keys):
            text = TEXT[: number % 11] if len(text) >= LONGEST else text + TEXT[number % len(TEXT)]
            lines: list[dict[str, Any]] = [{"text": text}]
            if number % 40 == 39:  # a branch with an edit of a state
                edit = {"lane": RUN, "at": len(text) // 2, "key": "1.h", "unit": number % 40, "value": 1.5}
                lines.append({"text": text[:-3] + "oh!", "edits": [edit]} if len(text) > 8 else {"text": text})
            reader.read(*lines, have=max(0, len(text) - 1))
            if number % (keys // 18) == keys // 18 - 1:
                memory.append(round(memory_of(pid) / 1e6, 1))
        return {
            "keys": keys,
            "lanes": len(HOUR_LANES),
            "seconds": round(time.perf_counter() - begun, 1),
            "memory_mb": memory,
            "growth_mb": round(memory[-1] - memory[len(memory) // 3], 1),
        }


def cpu_seconds(pid: int) -> float:
    """The processor's time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def children_seconds(but: int) -> float:
    """The processor's time of all processes that this one has started, but for one: those of the browser."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it may have ended meanwhile
            parents[int(path.parent.name)] = int(path.read_text(encoding="ascii").rpartition(")")[2].split()[1])
    found, new = set[int](), {os.getpid()}
    while new:
        found |= new
        new = {pid for pid, parent in parents.items() if parent in new} - found - {but}
    return sum(cpu_seconds(pid) for pid in found - {os.getpid()})


def memory_of(pid: int) -> int:
    """Bytes of memory that a process holds."""
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
