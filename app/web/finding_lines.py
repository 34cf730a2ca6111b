"""BROWSE: the lines of code that findings point at, so that pages can mark them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.domain.evaluation import EvaluationError
from app.domain.verdict import Finding

MAX_DEPTH = 6
"""Depth to which a finding's evidence is searched for spans."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """Lines of the candidate that a detector points at."""

    detector: str
    label: str
    why: str
    first: int
    """1-based."""
    last: int


def of_candidate(findings: Sequence[Finding]) -> tuple[Span, ...]:
    """Every span in the evidence: a mapping with a `line`, perhaps an `end_line` and
    a `why`, and no other `file`.
    """
    return tuple(
        span for finding in findings for span in _spans(finding, finding.evidence, MAX_DEPTH)
    )


_ERROR_LINE = re.compile(r'(?:candidate\.py"?, |\()line (\d{1,6})\b')


def error_lines(error: EvaluationError | None) -> tuple[int, ...]:
    """Lines of the candidate that an error names, in their order."""
    text = f"{error.message}\n{error.log or ''}" if error else ""
    return tuple(dict.fromkeys(int(line) for line in _ERROR_LINE.findall(text)))


def with_error(marked: Mapping[int, str], error: EvaluationError | None) -> dict[int, str]:
    """Marked lines, those of an error among them."""
    return {**{line: f"error: {error.message}" for line in error_lines(error) if error}, **marked}


def marks(spans: Sequence[Span]) -> dict[int, str]:
    """Line → why it is marked."""
    found: dict[int, list[str]] = {}
    for span in spans:
        for line in range(span.first, min(span.last, span.first + 200) + 1):
            found.setdefault(line, []).append(f"{span.detector.replace('_', ' ')}: {span.why}")
    return {line: "; ".join(dict.fromkeys(reasons)) for line, reasons in found.items()}


def _spans(finding: Finding, value: object, depth: int) -> Iterator[Span]:
    if not depth:
        return
    if isinstance(value, Mapping):
        line = value.get("line")
        if type(line) is int and line > 0 and value.get("file", "candidate") == "candidate":
            end = value.get("end_line")
            yield Span(
                detector=finding.detector,
                label=finding.label,
                why=str(value.get("why") or finding.summary),
                first=line,
                last=end if type(end) is int and end >= line else line,
            )
        for item in value.values():
            yield from _spans(finding, item, depth - 1)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _spans(finding, item, depth - 1)
