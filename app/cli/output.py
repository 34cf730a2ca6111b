"""Text, tables and JSON on a terminal.  Text of candidates and models is shown harmless: no control
character reaches the terminal, and no bracket is taken for markup.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click
import msgspec
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

from app.cli.errors import FULL, BadInputError
from app.domain.source import source_text

Cell = Text | str | None
"""Cell of a table; None is shown as a dash."""

T = TypeVar("T")

LINE_S = 5.0
"""Least time between two lines of progress, in seconds."""
STILL_S = 60.0
"""Least time between two lines of one count: a sign of life, in seconds."""
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
    with draft_of(path) as draft, draft.open("w", encoding="utf-8") as file:
        yield file


@contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """Name of a file to write, which takes the place of `path` once it is whole; after an error
    that one is as it was.
    """
    draft = path.with_name(f".{path.name}.new")
    try:
        with _named(path):
            yield draft
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
        with _named(path):
            yield draft
        draft.replace(path)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Have an error of a disk without room name the path: the system names nothing
    where a file that is open cannot grow.
    """
    try:
        yield
    except OSError as error:
        if error.errno in FULL and error.filename is None:
            error.filename = str(path)
        raise


def progress(label: str, console: Console | None = None) -> Progress:
    """A bar that is gone when it is done; without a terminal lines on standard error."""
    console = console or err()
    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    if not console.is_terminal:
        return _Lines(label, console)
    return Progress(*columns, console=console, transient=True)


class _Lines(Progress):
    """Progress in plain lines, one in LINE_S at most, of one count in STILL_S: for logs of long
    runs.  Short ones write none.
    """

    def __init__(self, label: str, console: Console) -> None:
        super().__init__(console=console, disable=True)
        self._label = label
        self._begun = self._told = time.monotonic()
        self._last: tuple[TaskID, float] | None = None
        """Task and count of the last line."""

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
        task = next(each for each in self.tasks if each.id == task_id)
        count = task_id, task.completed
        if now - self._told < (STILL_S if count == self._last else LINE_S):
            return
        self._told, self._last = now, count
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
    plain: Callable[[T], object] | None = None,
) -> None:
    """Records on standard output: a table with these columns, by heading, or their
    `plain` forms as JSON; without it they are dataclasses, with all their fields.
    """
    if as_json:
        json_out([(plain or plain_fields)(record) for record in records])
    else:
        list_out(*columns, rows=([cell(record) for cell in columns.values()] for record in records))


def plain_fields(record: Any) -> object:
    """Every field of a dataclass, of types that JSON has."""
    return msgspec.to_builtins(asdict(record))


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
