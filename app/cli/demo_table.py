"""The table of `assay demo`: a line for each result, and a bar of all evaluations."""

from __future__ import annotations

from types import TracebackType

from rich.text import Text

from app.cli import output, result_text, zoo
from app.client import Result

FOUND_WIDTH = 90
"""Characters of the findings that fit into a line."""
_WIDTHS = (2, 20, 34, 14, 8, 20, 0)


class Table:
    """Prints the results while open, above a bar of how many of `total` evaluations are over."""

    def __init__(self, total: int) -> None:
        console = output.out()
        header = _columns("", "problem", "candidate", "status", "verdict", "speedup", "found")
        console.print(Text(header, style="dim"))
        self._bar = output.progress("evaluating", console)
        self._task = self._bar.add_task("candidates", total=total)
        self._printed = self._collected = 0

    def __enter__(self) -> Table:
        self._bar.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.__exit__(kind, error, trace)

    def candidate(self, case: zoo.Case, result: Result, disagreement: str | None) -> None:
        """A candidate, with the difference of its result from the expected one."""
        self._print("✗" if disagreement else "✓", case.problem, case.name, result)
        if disagreement:
            self._bar.console.print(Text(f"   {disagreement}", style="red"))

    def turn(self, problem: str, name: str, result: Result) -> None:
        """A turn of a trajectory."""
        self._print("·", problem, name, result)

    def collected(self, answers: int) -> None:
        """Count the collection's answers so far, which have no lines."""
        self._collected = answers
        self._show()

    def _print(self, mark: str, problem: str, name: str, result: Result) -> None:
        status = str(result["status"] or result["state"])
        verdict = result_text.verdict(result) or "–"
        found = _shortened(result_text.found(result))
        speedup = result_text.speedup(result)
        line = Text(_columns(mark, problem, name, status, verdict, speedup, found))
        line.stylize({"✓": "green", "✗": "bold red"}.get(mark, ""), 0, 1)
        line.highlight_words([f" {status} "], output.STYLES.get(status, "red"))
        line.highlight_words([f" {verdict} "], output.STYLES.get(verdict, ""))
        self._bar.console.print(line)
        self._printed += 1
        self._show()

    def _show(self) -> None:
        self._bar.update(self._task, completed=self._printed + self._collected)


def _columns(*cells: str) -> str:
    return " ".join(f"{cell:<{width}}" for cell, width in zip(cells, _WIDTHS, strict=True))


def _shortened(text: str) -> str:
    return text if len(text) <= FOUND_WIDTH else f"{text[: FOUND_WIDTH - 1]}…"
