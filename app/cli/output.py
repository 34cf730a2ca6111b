"""Results on a terminal.  Text of candidates and models is shown harmless: no control character
reaches the terminal, and no bracket is taken for markup.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from app.cli.errors import BadInputError
from app.domain import quantities, source_text
from app.domain.verdict import is_shown

Result = Mapping[str, Any]
"""Result as app.domain.result builds it."""

Cell = Text | str | None
"""Cell of a table; None is shown as a dash."""

T = TypeVar("T")

LINE_S = 5.0
"""Least time between two lines of progress, in seconds."""
LOG_LINES = 40
"""Lines of an error's log that a person is shown; `--json` has all that is stored."""

STYLES = {
    "passed": "green",
    "clean": "green",
    "suspect": "yellow",
    "hack": "bold red",
    "invalid": "yellow",
    "failed": "bold red",
    "cancelled": "yellow",
}
"""Word → colour; every other status is red."""


def out() -> Console:
    """Standard output, at this moment (tests replace it)."""
    return Console(file=_tolerant(sys.stdout), highlight=False, soft_wrap=True)


def err() -> Console:
    """Standard error: progress and remarks, so that standard output is the answer alone."""
    return Console(file=_tolerant(sys.stderr), highlight=False, soft_wrap=True)


def _tolerant(stream: TextIO) -> TextIO:
    """The stream; an escape takes the place of a sign that its encoding lacks, for instance ×."""
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return stream


@contextmanager
def in_place_of(path: Path) -> Iterator[TextIO]:
    """A file that takes the place of the one at `path` once it is whole; after an
    error that one is as it was.  Raises BadInputError where its folder is missing.
    """
    if not path.parent.is_dir():
        raise BadInputError(f"{path}: expected a file in a folder that exists, got {path.parent}")
    draft = path.with_name(f".{path.name}.new")
    try:
        with draft.open("w", encoding="utf-8") as file:
            yield file
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def folder_in_place_of(path: Path) -> Iterator[Path]:
    """A folder that takes the place of `path` once it is whole; after an error there is none.
    Raises BadInputError for a folder that holds something, or another file.
    """
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise BadInputError(f"{path}: expected no such folder or an empty one")
    draft = path.with_name(f".{path.name}.new")
    shutil.rmtree(draft, ignore_errors=True)  # left by a process that was killed
    draft.mkdir(parents=True)
    try:
        yield draft
        draft.replace(path)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def progress(label: str, console: Console | None = None) -> Progress:
    """A bar that is gone when it is done; without a terminal lines on standard error."""
    console = console or err()
    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    if not console.is_terminal:
        return _Lines(label, console)
    return Progress(*columns, console=console, transient=True)


class _Lines(Progress):
    """Progress in plain lines, one in LINE_S at most: for logs of long runs.  Short
    ones write none.
    """

    def __init__(self, label: str, console: Console) -> None:
        super().__init__(console=console, disable=True)
        self._label = label
        self._begun = self._told = time.monotonic()

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        """Take a step into account."""
        super().advance(task_id, advance)
        self._tell(task_id)

    def update(self, task_id: TaskID, **fields: Any) -> None:
        """Take a new state into account."""
        super().update(task_id, **fields)
        self._tell(task_id)

    def _tell(self, task_id: TaskID) -> None:
        now = time.monotonic()
        if now - self._told < LINE_S:
            return
        self._told = now
        task = next(each for each in self.tasks if each.id == task_id)
        total = f" of {task.total:.0f}" if task.total is not None else ""
        line = (
            f"{self._label} {task.description}: {task.completed:.0f}{total},"
            f" {now - self._begun:.0f} s"
        )
        click.echo(line, err=True)


class Lines:
    """Lines of progress for a log on standard error: one in LINE_S at most, and none twice."""

    def __init__(self) -> None:
        self._told_s, self._told = time.monotonic(), ""

    def tell(self, line: str) -> None:
        """Write the line, unless it is too early or says nothing new."""
        now_s = time.monotonic()
        if now_s - self._told_s >= LINE_S and line != self._told:
            click.echo(line, err=True)
            self._told_s, self._told = now_s, line


def table_out(table: Table) -> None:
    """A table on standard output, never cut: a terminal that is too narrow breaks its
    lines, a pipe gets them whole.
    """
    console = Console(file=_tolerant(sys.stdout), highlight=False, soft_wrap=True, width=_WIDEST)
    console.print(table)


def json_option(about: str = "Print JSON.") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option `--json` of a command, as the parameter `as_json`; `about` is its help text."""
    return click.option("--json", "as_json", is_flag=True, help=about)


def records_out(
    records: Sequence[T],
    columns: Mapping[str, Callable[[T], Cell]],
    *,
    as_json: bool,
    plain: Callable[[T], object],
) -> None:
    """Records on standard output: a table with these columns, by heading, or their
    `plain` forms as JSON.
    """
    if as_json:
        json_out([plain(record) for record in records])
    else:
        list_out(*columns, rows=([cell(record) for cell in columns.values()] for record in records))


def minute(moment: datetime) -> str:
    """Date and time to the minute."""
    return f"{moment:%Y-%m-%d %H:%M}"


def list_out(*headings: str, rows: Iterable[Iterable[Cell]]) -> None:
    """Rows below their headings on standard output, as they are: their texts are not
    markup; None is a dash.
    """
    table = Table(*headings, box=None, header_style="dim")
    for cells in rows:
        shown = ("–" if cell is None else cell for cell in cells)
        table.add_row(*(Text(safe(cell)) if isinstance(cell, str) else cell for cell in shown))
    table_out(table)


_WIDEST = 10_000
"""Characters of a line: rich cuts cells of a wider table."""


def json_out(value: object) -> None:
    """One JSON document on standard output; floats as they are, NaN impossible."""
    click.echo(json.dumps(value, indent=2, allow_nan=False, ensure_ascii=True))


def answer_out(sentence: str, fields: Mapping[str, object], *, as_json: bool) -> None:
    """The answer of a command that acts, on standard output: a sentence, or its fields as JSON."""
    if as_json:
        json_out(fields)
    else:
        click.echo(sentence)


def safe(text: str) -> str:
    """Control characters other than newline and tab become visible escapes."""
    shown = source_text.printable(text)
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in shown
    )


def word(name: str | None) -> Text:
    """A status, label or state in its colour; a dash where there is none."""
    return Text("–", style="dim") if name is None else Text(name, style=STYLES.get(name, "red"))


def speedup(result: Result) -> str:
    """`1.52× [1.40, 1.66]`, or a dash where no speedup is credited."""
    if result["speedup"] is None or result["speedup_ci"] is None:
        return "–"
    return _ratio(result["speedup"], *result["speedup_ci"])


def _ratio(value: float, low: float, high: float) -> str:
    """A speedup and its interval, rounded as on pages: 0.004× is not 0.00×."""
    ends = ", ".join(quantities.ratio(end).removesuffix("×") for end in (low, high))
    return f"{quantities.ratio(value)} [{ends}]"


def verdict(result: Result) -> str | None:
    """The label, where it is shown: beside a compile error or a wrong answer `clean`
    would read as a success.
    """
    label, status = result["verdict"], result["status"]
    return label if status is not None and is_shown(label=label, status=status) else None


def found(result: Result) -> str:
    """One line beyond the numbers: detectors that found something, else the error."""
    if result["findings"]:
        return ", ".join(dict.fromkeys(finding["detector"] for finding in result["findings"]))
    if result["error"]:
        message = safe(result["error"]["message"]).split("\n", 1)[0]
        return f"{result['error']['kind']}: {message}"
    return ""


def details(result: Result) -> Text:
    """One result in full, for a person."""
    lines: list[tuple[str, Text | str]] = []
    if result["state"] != "finished":
        lines.append(("state", word(result["state"])))
    lines += [("status", word(result["status"])), ("verdict", word(verdict(result)))]
    if result["reference_us"] is not None:
        credited = f"{speedup(result)} over {result['baseline']} (95 % confidence interval)"
        lines.append(("speedup", "not credited" if result["speedup"] is None else credited))
        lines.append(("reference", f"{result['reference_us']:.1f} µs per call"))
        lines.append(("candidate", f"{result['candidate_us']:.1f} µs per call"))
        lines += [("GPU time", said) for said in _device_time(result)]
        lines += [("baseline", _baseline(baseline)) for baseline in result["baselines"]]
    lines += [("case", _case(case)) for case in result["cases"]]
    if result["cases"] and result["candidate_us"] is not None:
        lines.append(("speedup", "none: a problem by cases has no reference that could be slower"))
    if result["coverage_time"] is not None:
        lines.append(
            ("coverage", f"{result['coverage_time']:.0%} of kernel time in the candidate's kernels")
        )
    if result["correctness"]:
        calls, failed = result["correctness"]["calls"], result["correctness"]["failed_calls"]
        lines.append(("verified", f"{calls} calls, {failed} wrong"))
    if result["environment"]:
        lines.append(("device", safe(str(result["environment"].get("device_name", "")))))
    lines += [("finding", _finding(finding)) for finding in result["findings"]]
    if result["error"]:
        lines.append(("error", f"{result['error']['kind']}: {safe(result['error']['message'])}"))
    lines += [("job", result["job_id"])] + ([("page", result["url"])] if result["url"] else [])
    shown = Text("\n").join(Text.assemble((f"{name:<11}", "dim"), value) for name, value in lines)
    log = (result["error"] or {}).get("log")
    return Text.assemble(shown, "\n\n", safe(_tail(log))) if log else shown


def _device_time(result: Result) -> list[str]:
    """The speedup by the device's own time, or why it is not known; nothing where it
    was not asked for.
    """
    if result["device_speedup_error"] is not None:
        return [f"not measured: {safe(result['device_speedup_error'])}"]
    if result["device_speedup"] is None or result["device_speedup_ci"] is None:
        return []
    numbers = _ratio(result["device_speedup"], *result["device_speedup_ci"])
    return [f"{numbers} without the host's launching (CUDA graphs)"]


def _baseline(baseline: Mapping[str, Any]) -> str:
    """Comparison with a further baseline, or the reason why there is none."""
    if baseline["error"] is not None:
        return f"over {baseline['name']}: not measured: {safe(baseline['error'])}"
    took = f"({baseline['baseline_us']:.1f} µs per call)"
    if baseline["speedup"] is None:
        return f"over {baseline['name']}: not credited {took}"
    numbers = _ratio(baseline["speedup"], baseline["ci_low"], baseline["ci_high"])
    return f"over {baseline['name']}: {numbers} {took}"


def _case(case: Mapping[str, Any]) -> Text:
    """Outcome of one case: its name is the problem's text, its message may be the candidate's."""
    took = ""
    if case["candidate_us"] is not None:
        took = f", {case['candidate_us']:.1f} µs per call"
        if case["candidate_us_low"] is not None and case["candidate_us_high"] is not None:
            took += f" [{case['candidate_us_low']:.1f}, {case['candidate_us_high']:.1f}]"
    said = f": {safe(case['message'])}" if case["message"] else ""
    calls = f", {case['calls']} calls, {case['failed_calls']} wrong"
    number = f"  {case['index'] + 1}/{case['of']} "
    return Text.assemble(word(case["status"]), number, safe(case["name"]), calls, took, said)


def _finding(finding: Mapping[str, Any]) -> Text:
    label = word(finding["label"])
    return Text.assemble(
        label, f"  {finding['detector']} v{finding['version']}: {safe(finding['summary'])}"
    )


def _tail(log: str) -> str:
    lines = log.rstrip().split("\n")
    left_out = len(lines) - LOG_LINES
    return "\n".join([f"… {left_out} lines before", *lines[-LOG_LINES:]] if left_out > 0 else lines)
