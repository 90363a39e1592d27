"""Tokens a second of many sessions at once against one after the other, over HTTP: python -m tools.serving

`recollect serve` runs in a process of its own. In each round the same texts are asked for in three ways, in turn: one
after the other, all at once, and all at once as streams. Each text is compared with the one that it is alone. The rows
go to results/serve.json, the table to docs/serve.md and docs/serve.zh.md. Other work on the machine slows all ways of a
round: the ratio says more than the seconds.
"""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from recollect.training.folder import commit, machine

ROOT = Path(__file__).parents[1]
RUN, TOKEN = "demo-text", "a-token-of-the-measurement"
SESSIONS, TOKENS, ROUNDS = 32, 200, 5
WAYS = ("one after the other", "at once", "at once, as streams")
PAGES = {"docs/serve.md": "en", "docs/serve.zh.md": "zh"}
HEADS = {
    "en": (
        ("way", "tokens/s, median of the rounds", "against one after the other"),
        dict(zip(WAYS, WAYS, strict=True)),
    ),
    "zh": (
        ("方式", "每秒词元数（各轮的中位数）", "与逐个相比"),
        dict(zip(WAYS, ("逐个", "同时", "同时，流式输出"), strict=True)),
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--tokens", type=int, default=TOKENS)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "serve.json")
    parser.add_argument("--pages", action="store_true", help="only write the pages anew")
    options = parser.parse_args()
    if not options.pages:
        content = {
            "about": __doc__,
            "command": f"python -m tools.serving --rounds {options.rounds} --tokens {options.tokens}",
            "commit": commit(),
            "machine": machine(),
            "run": RUN,
            "sessions": SESSIONS,
            "tokens": options.tokens,
        } | measure(options.rounds, options.tokens)
        options.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        print(json.dumps(content["rows"], indent=1))
    content = json.loads(options.out.read_text(encoding="utf-8"))
    for page, language in PAGES.items():
        path = ROOT / page
        path.write_text(place_table(path.read_text(encoding="utf-8"), table(content, language)), encoding="utf-8")


def measure(rounds: int, tokens: int) -> dict[str, Any]:
    """The rows of all ways, and how many texts were what they are alone."""
    env = os.environ | {"RECOLLECT_TOKEN": TOKEN, "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "recollect", "serve", RUN, "--port", "0", "--json"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env)
    try:
        assert process.stdout is not None
        lines = []
        while not lines or lines[-1] != "}\n":
            lines.append(process.stdout.readline())
            assert lines[-1], "the server did not start"
        port = int(json.loads("".join(lines))["url"].rpartition(":")[2])
        return asyncio.run(compare(port, rounds, tokens))
    finally:
        process.terminate()
        process.wait()


async def compare(port: int, rounds: int, tokens: int) -> dict[str, Any]:
    """Every way in turn, round by round."""
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    same = compared = 0
    for number in range(rounds + 1):  # the first one warms up
        texts = {}
        for way in WAYS:
            began = time.perf_counter()
            texts[way] = await ask_all(port, way, tokens, seed=number * SESSIONS)
            if number:
                seconds[way].append(round(time.perf_counter() - began, 4))
        for way in WAYS[1:]:
            same += sum(a == b for a, b in zip(texts[way], texts[WAYS[0]], strict=True))
            compared += SESSIONS
    rows = [
        {"way": way, "seconds": each, "tokens/s": round(median(SESSIONS * tokens / part for part in each), 1)}
        | {"ratio": round(median(first / part for first, part in zip(seconds[WAYS[0]], each, strict=True)), 2)}
        for way, each in seconds.items()
    ]
    return {"rows": rows, "texts compared": compared, "texts equal": same}


async def ask_all(port: int, way: str, tokens: int, seed: int) -> list[str]:
    """The texts of all sessions."""
    bodies = [
        {"prompt": "KING:", "max_tokens": tokens, "seed": seed + number, "stream": way == WAYS[2]}
        for number in range(SESSIONS)
    ]
    if way == WAYS[0]:
        return [await ask(port, body) for body in bodies]
    return list(await asyncio.gather(*(ask(port, body) for body in bodies)))


async def ask(port: int, body: Mapping[str, Any]) -> str:
    """One text, as a client asks for it on a connection of its own."""
    content = json.dumps(body).encode()
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\nConnection: close\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head.encode() + content)
    answer = await reader.read()
    writer.close()
    status, _, rest = answer.partition(b"\r\n")
    assert b" 200 " in status, answer
    found = rest.partition(b"\r\n\r\n")[2].decode()
    if not body["stream"]:
        return json.loads(found)["choices"][0]["text"]
    events = re.findall(r"^data: (\{.*\})$", found.replace("\r", ""), re.MULTILINE)
    return "".join(json.loads(event)["choices"][0]["text"] for event in events)


def table(content: Mapping[str, Any], language: str) -> str:
    """The rows as a table of a page."""
    heads, ways = HEADS[language]
    lines = [f"| {' | '.join(heads)} |", "|---|---|---|"]
    lines += [f"| {ways[row['way']]} | {row['tokens/s']:,.0f} | {row['ratio']:.1f} |" for row in content["rows"]]
    return "\n".join(lines)


def place_table(page: str, text: str) -> str:
    """A page with the table in its place."""
    return re.sub(
        r"(<!-- serving -->\n).*?(<!-- end -->)", lambda found: f"{found[1]}{text}\n{found[2]}", page, flags=re.S
    )


if __name__ == "__main__":
    main()
