"""An examination as text, and as plain data for `--json`."""

import textwrap
from typing import Any

from .examine import Examination, Finding

WIDTH = 120
INDENT = " " * 16


def render(examination: Examination) -> str:
    """One line a law; below a broken one what it is a case of, where, the smallest input, and how to see it again."""
    batch, steps, dim = examination.size
    head = f"{examination.target}: {examination.kind}; {examination.dtype}, batch {batch}, steps {steps}"
    head += f", dim {dim}" if examination.vocab is None else f", tokens below {examination.vocab}"
    return "\n".join([head, *(line for finding in examination.findings for line in lines(finding))])


def lines(finding: Finding) -> list[str]:
    """The lines of one law."""
    head = f"{finding.law:8}"
    if finding.verdict == "holds":
        return [f"{head}holds   largest error {finding.error or 0:.1e}"]
    if finding.verdict == "skipped":
        return [f"{head}-       {finding.reason}"]
    found = [f"{head}BROKEN  {finding.cause or finding.message}"]
    details = [finding.message] if finding.cause else []
    details += [f"step {finding.step}"] if finding.step is not None else []
    details += [f"layer {finding.where}"] if finding.where else []
    if finding.size is not None:
        batch, steps, dim = finding.size
        seed = f", seed {finding.seed}" if finding.seed is not None else ""
        details.append(f"smallest input: batch {batch}, steps {steps}, dim {dim}{seed}")
    for detail in details:
        found += textwrap.wrap(str(detail), WIDTH, initial_indent=INDENT, subsequent_indent=INDENT + "  ")
    return found + [f"{INDENT}>>> {line}" for line in finding.reproduction]


def as_data(examination: Examination) -> dict[str, Any]:
    """Plain data: laws by name, with what is known of each."""
    laws = {}
    for finding in examination.findings:
        row = {name: value for name, value in finding._asdict().items() if value not in (None, ()) and name != "law"}
        laws[finding.law] = row | ({"size": finding.size._asdict()} if finding.size else {})
    return {
        "target": examination.target,
        "kind": examination.kind,
        "dtype": examination.dtype,
        "size": examination.size._asdict(),
        "laws": laws,
    }
