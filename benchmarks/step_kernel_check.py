"""The kernels of a decoding step on a GPU: right against float64, and how fast.

python -m benchmarks.step_kernel_check [--seconds 55] [--json FILE]

First every kernel in every dtype and launch on fresh random inputs, in several processes, which also compile what is
timed later. Then a whole step of GPT-2 (124 M, bfloat16) in a CUDA graph, then each kernel in one, over so many copies
of its weights that they come from memory. What fails is printed, and the rest goes on. Exit status 1 if any is wrong.
"""
# pyright: reportCallIssue=false, reportArgumentType=false

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding, gelu, layer_norm, scaled_dot_product_attention

from recollect.kernels import interpreted
from recollect.kernels.decode import block as step
from recollect.layers.position import angles

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BANDWIDTH = 4.8e12  # bytes a second, of an H200 by its datasheet
CACHE = 60e6  # bytes of its second-level cache
TOLERANCE = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2}
SLOTS, SIZE, EPS = 1024, 64, 1e-5
PROCESSES = 12


@dataclass(frozen=True)
class Case:
    """One kernel at one size: `up` and `qkv` norm, `out` and `down` add; `attend` has heads of 64 at some clock."""

    kind: str
    batch: int
    dim: int = 768
    dtype: str = "bfloat16"
    clock: int = 0
    rotary: bool = False
    launch: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        at = f" clock {self.clock}{' rotary' if self.rotary else ''}" if self.kind == "attend" else ""
        how = "".join(f", {name} {value}" for name, value in self.launch.items())
        return f"{self.kind} B{self.batch} D{self.dim} {self.dtype}{at}{how}"

    @property
    def type(self) -> torch.dtype:
        return getattr(torch, self.dtype)

    def random(self, *shape: int, scale: float = 1.0) -> Tensor:
        return (torch.randn(shape, device=DEVICE) * scale).to(self.type)

    def inputs(self) -> tuple[list[Tensor], list[Tensor]]:
        """What every call shares, and what a model has a copy of in every layer."""
        d, heads = self.dim, self.dim // SIZE
        if self.kind == "attend":
            clock = torch.full((self.batch,), self.clock, device=DEVICE)
            caches = [self.random(self.batch, SLOTS, heads, SIZE) for _ in range(2)]
            return [self.random(self.batch, 3 * d), clock, *tables()], caches
        wide, count = (4 * d if self.kind == "down" else d), {"qkv": 3, "up": 4}.get(self.kind, 1) * d
        weight = self.random(count, wide, scale=wide**-0.5)
        shared = [self.random(self.batch, wide), 1 + self.random(wide, scale=0.3), self.random(wide)]
        return [*shared, self.random(count), self.random(self.batch, count)], [weight]

    def run(self, shared: list[Tensor], own: list[Tensor]) -> Tensor:
        if self.kind == "attend":
            (qkv, clock, cos, sin), heads = shared, self.dim // SIZE
            rotary = (cos, sin) if self.rotary else None
            return step.attend_step(qkv, *own, clock, heads, heads, rotary, SIZE**-0.5, **self.launch)
        x, gain, shift, bias, residual = shared
        if self.kind in ("qkv", "up"):
            activation = "gelu" if self.kind == "up" else "none"
            return step.norm_linear(x, gain, shift, EPS, own[0], bias, activation, **self.launch)
        return step.linear_add(x, own[0], bias, residual, **self.launch)

    def error(self) -> float:
        """How far off from float64, by the norm of the difference; what is kept in the cache counts too."""
        shared, own = self.inputs()
        wide = [t.double() if t.is_floating_point() else t for t in shared]
        before = [t.double() for t in own]
        worst = 0.0
        for _ in range(3):  # the second and third must find all as the first did
            found = [self.run(shared, own)]
            if self.kind == "attend":
                (qkv, clock, cos, sin), heads = wide, self.dim // SIZE
                rotary = (cos, sin) if self.rotary else None
                expected = [plain_attention(qkv, *before, clock, heads, rotary), *before]
                found += own
            else:
                x, gain, shift, bias, residual = wide
                normed = layer_norm(x, x.shape[1:], gain, shift, EPS) if self.kind in ("qkv", "up") else x
                y = normed @ before[0].T + bias
                expected = [gelu(y) if self.kind == "up" else y if self.kind == "qkv" else y + residual]
            pairs = zip(found, expected, strict=True)
            worst = max(worst, *(float((a.double() - b).norm() / b.norm()) for a, b in pairs))
        return worst if math.isfinite(worst) else math.inf

    def bytes(self) -> int:
        if self.kind == "attend":
            return self.batch * (self.clock + 2) * self.dim * 2 * self.type.itemsize
        return self.dim * self.dim * {"qkv": 3, "up": 4, "down": 4, "out": 1}[self.kind] * self.type.itemsize


def tables() -> tuple[Tensor, Tensor]:
    angle = angles(torch.arange(SLOTS, device=DEVICE), SIZE)
    return angle.cos().float(), angle.sin().float()


def plain_attention(
    qkv: Tensor, keys: Tensor, values: Tensor, clock: Tensor, heads: int, rotary: tuple[Tensor, Tensor] | None
) -> Tensor:
    """One step of attention in torch; all rows at one clock."""
    now = int(clock[0])
    q, k, v = qkv.view(len(qkv), 3, heads, -1).unbind(1)
    if rotary is not None:
        turns = torch.complex(*(table[now].double() for table in rotary))
        q, k = (torch.view_as_real(torch.view_as_complex(t.unflatten(2, (-1, 2))) * turns).flatten(2) for t in (q, k))
    keys[:, now], values[:, now] = k, v
    seen = (t[:, : now + 1].transpose(1, 2) for t in (keys, values))
    return scaled_dot_product_attention(q[:, :, None], *seen).reshape(len(qkv), -1)


class Gpt:
    """GPT-2's shape with random weights: `step` by the kernels, `plain` by torch in the dtype of its weights."""

    def __init__(self, batch: int, layers: int = 12, dim: int = 768, vocabulary: int = 50_304) -> None:
        case = Case("qkv", batch, dim)
        self.heads, self.batch = dim // SIZE, batch
        self.wide, self.places = case.random(vocabulary, dim, scale=0.3), case.random(SLOTS, dim, scale=0.3)
        shapes = [(3 * dim, dim), (dim, dim), (4 * dim, dim), (dim, 4 * dim)]
        self.layers = [
            [(case.random(*shape, scale=shape[1] ** -0.5), case.random(shape[0], scale=0.1)) for shape in shapes]
            for _ in range(layers)
        ]
        self.norms = [(1 + case.random(dim, scale=0.1), case.random(dim, scale=0.1)) for _ in range(2 * layers + 1)]
        self.caches = [[case.random(batch, SLOTS, self.heads, SIZE) for _ in range(2)] for _ in range(layers)]
        self.token = torch.randint(vocabulary, (batch,), device=DEVICE)
        self.clock = torch.zeros(batch, dtype=torch.int64, device=DEVICE)

    def step(self, head: str = "kernel", **launch: Any) -> Tensor:
        x = embedding(self.token, self.wide) + embedding(self.clock, self.places)
        for i, (qkv, out, up, down) in enumerate(self.layers):
            first, second = self.norms[2 * i], self.norms[2 * i + 1]
            y = step.norm_linear(x, *first, EPS, *qkv, **launch)
            y = step.attend_step(y, *self.caches[i], self.clock, self.heads, self.heads, None, SIZE**-0.5, **launch)
            x = step.linear_add(y, *out, x, **launch)
            y = step.norm_linear(x, *second, EPS, *up, "gelu", **launch)
            x = step.linear_add(y, *down, x, **launch)
        if head == "kernel":
            return step.norm_linear(x, *self.norms[-1], EPS, self.wide, **launch)
        return layer_norm(x, x.shape[1:], *self.norms[-1], EPS) @ self.wide.T

    def plain(self) -> Tensor:
        x = embedding(self.token, self.wide) + embedding(self.clock, self.places)
        for i, layer in enumerate(self.layers):
            (qkv, out, up, down), (first, second) = layer, self.norms[2 * i : 2 * i + 2]
            y = layer_norm(x, x.shape[1:], *first, EPS) @ qkv[0].T + qkv[1]
            x = x + plain_attention(y, *self.caches[i], self.clock, self.heads, None) @ out[0].T + out[1]
            y = layer_norm(x, x.shape[1:], *second, EPS) @ up[0].T + up[1]
            x = x + gelu(y) @ down[0].T + down[1]
        return layer_norm(x, x.shape[1:], *self.norms[-1], EPS) @ self.wide.T

    def error(self, clock: int) -> tuple[float, float]:
        """How far off from float64 the logits of the kernels are, and those of torch."""
        self.clock.fill_(clock)
        found = self.step().double(), self.plain().double()
        held = self.wide, self.places, self.layers, self.norms, self.caches
        self.wide, self.places = self.wide.double(), self.places.double()
        self.layers = [[(w.double(), b.double()) for w, b in layer] for layer in self.layers]
        self.norms = [(a.double(), b.double()) for a, b in self.norms]
        self.caches = [[t.double() for t in pair] for pair in self.caches]
        truth = self.plain()
        self.wide, self.places, self.layers, self.norms, self.caches = held
        ours, theirs = (float((logits - truth).norm() / truth.norm()) for logits in found)
        return ours, theirs

    def advance(self, **options: Any) -> None:
        self.token.copy_(self.step(**options).argmax(dim=1))
        self.clock.add_(1)


def captured(run: Callable[[], object]) -> torch.cuda.CUDAGraph:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph


def seconds_of(graph: torch.cuda.CUDAGraph, replays: int, reset: Callable[[], object]) -> float:
    """The median of 15 rounds, of one replay each."""
    times = []
    for _ in range(16):
        reset()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(replays):
            graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1e3 / replays)
    return statistics.median(times[1:])


def correct() -> list[Case]:
    """What has to be right."""
    linear = ("qkv", "out", "up", "down")
    shapes = [(b, 768, "bfloat16") for b in (1, 2, 8, 64)] + [(b, 512, "bfloat16") for b in (1, 8, 64)]
    shapes += [(1, 768, "float16"), (64, 768, "float16"), (1, 512, "float32"), (2, 768, "float32"), (8, 512, "float32")]
    cases = [Case(kind, b, d, dtype) for b, d, dtype in shapes for kind in linear]
    cases += [Case("attend", b, clock=clock) for b in (1, 8, 64) for clock in (0, 100, 127, 128, 1000, 1023)]
    cases += [Case("attend", 2, clock=clock, rotary=True, dtype="float32") for clock in (0, 500, 1023)]
    return [*cases, Case("attend", 1, 512, "float16", 700, True), Case("qkv", 1, launch={"overlap": False})]


def tried() -> list[Case]:
    """Launches to be compared, all of which must be right too; those of one kernel stand together."""
    sums = [{}, {"overlap": False}, {"rows": 8, "warps": 8}, {"rows": 8, "warps": 4}, {"rows": 2, "warps": 2}]
    cases = [Case(kind, 1, launch=launch) for kind in ("qkv", "out", "up") for launch in sums]
    wide = [
        {},
        {"overlap": False},
        {"rows": 4, "warps": 8},
        {"rows": 4, "warps": 16},
        {"rows": 4, "block": 256, "warps": 4},
    ]
    cases += [Case("down", 1, launch=launch) for launch in wide]
    spans = [{}, {"overlap": False}, {"warps": 4}, {"span": 64, "block": 64}, {"span": 1024, "warps": 8}]
    cases += [Case("attend", 1, clock=clock, launch=launch) for clock in (100, 1000) for launch in spans]
    dots = [{}, {"form": "sum"}, {"rows": 8}, {"warps": 4, "registers": 0}]
    cases += [Case(kind, 8, launch=launch) for kind in ("qkv", "out", "down") for launch in dots]
    dots = [{}, {"tall": 16}, {"tall": 32, "registers": 0}, {"rows": 32, "registers": 0}]
    cases += [Case(kind, 64, launch=launch) for kind in ("qkv", "out", "down") for launch in dots]
    spans = [{}, {"span": 128}, {"span": 1024}, {"span": 1024, "warps": 8}]
    return cases + [Case("attend", b, clock=1000, launch=launch) for b in (8, 64) for launch in spans]


def every() -> dict[str, Case]:
    return {case.name: case for case in correct() + tried()}


def check_part(part: int, of: int) -> None:
    """Every so many-th case, a line of JSON each."""
    torch.manual_seed(torch.seed() % 2**32)
    for case in list(every().values())[part::of]:
        try:
            found: dict[str, Any] = {"error": case.error()}
        except Exception as problem:
            found = {"failed": repr(problem)[:300]}
        print(json.dumps({"case": case.name, "tolerance": TOLERANCE[case.dtype], **found}), flush=True)


def checked() -> Iterator[dict[str, Any]]:
    command = [sys.executable, "-m", "benchmarks.step_kernel_check", "--part"]
    runs = [subprocess.Popen([*command, str(i)], stdout=subprocess.PIPE, text=True) for i in range(PROCESSES)]
    found = {}
    for run in runs:
        lines = run.communicate()[0].splitlines()
        found |= {line["case"]: line for line in map(json.loads, filter(lambda line: line.startswith("{"), lines))}
    for case in every():
        line = found.get(case, {"case": case, "failed": "its process ended before"})
        yield line | {"right": line.get("error", math.inf) <= line.get("tolerance", 0.0)}


def timed_steps() -> Iterator[dict[str, Any]]:
    for batch, options in ((1, {}), (1, {"overlap": False}), (1, {"head": "torch"}), (8, {}), (64, {})):
        name = f"step B{batch}{''.join(f', {name} {value}' for name, value in options.items())}"
        try:
            gpt = Gpt(batch)
            line: dict[str, Any] = {"case": name}
            if not options:
                line["error"], line["error of torch"] = gpt.error(100)
                line["right"] = line["error"] <= max(2 * line["error of torch"], 1e-2)
            graph = captured(lambda gpt=gpt, options=options: gpt.advance(**options))
            for clock in (100, 1000):
                seconds = seconds_of(graph, 20, lambda gpt=gpt, clock=clock: gpt.clock.fill_(clock))
                line[f"at {clock}"] = {"seconds": seconds, "tokens a second": batch / seconds}
            yield line
        except Exception as problem:
            yield {"case": name, "failed": repr(problem)[:300]}


def timed_kernels(until: float) -> Iterator[dict[str, Any]]:
    for case in tried():
        if time.monotonic() > until:
            yield {"case": case.name, "failed": "no time left"}
            continue
        try:
            shared, own = case.inputs()
            size = sum(t.numel() * t.element_size() for t in own)
            copies = [own, *([t.clone() for t in own] for _ in range(min(47, int(3 * CACHE / size))))]
            graph = captured(lambda case=case, shared=shared, copies=copies: [case.run(shared, c) for c in copies])
            seconds = seconds_of(graph, 5, lambda: None) / len(copies)
            yield {"case": case.name, "seconds": seconds, "share": case.bytes() / seconds / BANDWIDTH}
        except Exception as problem:
            yield {"case": case.name, "failed": repr(problem)[:300]}


def main() -> int:
    parser = argparse.ArgumentParser(description="The kernels of a decoding step: right, and how fast.")
    parser.add_argument(
        "--seconds", type=float, default=55, help="after which no further kernel is timed (default: 55)"
    )
    parser.add_argument("--json", type=Path, help="where to write all figures")
    parser.add_argument("--part", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not step.usable(torch.zeros(1, device=DEVICE)):
        parser.error("expected Triton and a GPU of capability 8.0 or more, found none")
    if options.part is not None:
        check_part(options.part, PROCESSES)
        return 0
    until = time.monotonic() + options.seconds
    checks = list(checked())
    wrong = [line for line in checks if not line["right"]]
    print(f"{len(checks)} cases against float64, {len(wrong)} wrong")
    for line in wrong:
        print("  WRONG", line["case"], line.get("failed") or f"off by {line['error']:.1e}")
    steps = [] if interpreted() else list(timed_steps())
    for line in steps:
        if "failed" in line:
            print("  FAILED", line["case"], line["failed"])
            continue
        rates = ", ".join(f"{line[f'at {c}']['tokens a second']:,.0f} tokens/s at {c}" for c in (100, 1000))
        off = f"; off by {line['error']:.1e}, torch {line['error of torch']:.1e}" if "error" in line else ""
        print(f"{line['case']:<28} {rates}{off}{'' if line.get('right', True) else ' WRONG'}", flush=True)
    kernels = [] if interpreted() else list(timed_kernels(until))
    for line in kernels:
        figures = line.get("failed") or f"{line['seconds'] * 1e6:7.2f} µs {line['share']:5.0%} of 4.8 TB/s"
        print(f"{line['case']:<64} {figures}")
    if options.json:
        from recollect.training.folder import commit

        from .measure import machine

        content = {"commit": commit(), "machine": machine(), "checks": checks, "steps": steps, "kernels": kernels}
        options.json.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    return 1 if wrong or not all(line.get("right", True) for line in steps) else 0


if __name__ == "__main__":
    sys.exit(main())
