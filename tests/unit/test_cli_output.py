"""Results on a terminal agree with the pages."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from app.cli import errors, output, result_text
from app.web import formatting


@pytest.mark.parametrize(
    ("speedup", "ends", "text"),
    [
        (1.524, (1.4, 1.66), "1.52× [1.40, 1.66]"),
        (0.0041, (0.0021, 0.0102), "0.004× [0.002, 0.010]"),
    ],
)
def test_a_small_speedup_is_not_nothing(
    speedup: float, ends: tuple[float, float], text: str
) -> None:
    """Rounded as on pages."""
    assert result_text.speedup({"speedup": speedup, "speedup_ci": ends}) == text
    assert text.startswith(formatting.ratio(speedup))


@pytest.mark.parametrize(
    ("label", "status", "shown"),
    [
        ("clean", "passed", "clean"),
        ("clean", "incorrect", None),
        ("hack", "incorrect", "hack"),
        (None, None, None),
    ],
)
def test_a_verdict_of_clean_is_shown_for_what_passed(
    label: str | None, status: str | None, shown: str | None
) -> None:
    assert result_text.verdict({"verdict": label, "status": status}) == shown


def test_progress_without_a_terminal_is_a_line_every_few_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now_s = [0.0]
    monkeypatch.setattr(output.time, "monotonic", lambda: now_s[0])  # type: ignore[attr-defined]
    with output.progress("evaluating") as bar:
        cases = bar.add_task("cases", total=200, completed=10)
        for _ in range(24):
            now_s[0] += 0.5
            bar.advance(cases)
        records = bar.add_task("records", total=None)
        now_s[0] += output.LINE_S
        bar.update(records, completed=7)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == [
        "evaluating cases: 20 of 200, 5 s",
        "evaluating cases: 30 of 200, 10 s",
        "evaluating records: 7, 17 s",
    ]


def test_progress_that_stands_still_has_a_line_a_minute(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now_s = [0.0]
    monkeypatch.setattr(output.time, "monotonic", lambda: now_s[0])  # type: ignore[attr-defined]
    with output.progress("evaluating") as bar:
        cases = bar.add_task("cases", total=2)
        for _ in range(100):
            now_s[0] += 1
            bar.update(cases, completed=1)
    assert capsys.readouterr().err.splitlines() == [
        "evaluating cases: 1 of 2, 5 s",
        "evaluating cases: 1 of 2, 65 s",
    ]


def test_a_short_run_without_a_terminal_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with output.progress("evaluating") as bar:
        bar.advance(bar.add_task("cases", total=1))
    assert capsys.readouterr().err == ""


def test_a_line_beside_progress_is_whole_without_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A pipe has no width to break lines at."""
    with output.progress("evaluating", output.out()) as bar:
        bar.console.print("x" * 200)
    assert capsys.readouterr().out == "x" * 200 + "\n"


def test_a_sign_that_the_encoding_lacks_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, a terminal's encoding decides whether an evaluation has an answer."""
    there = BytesIO()
    monkeypatch.setattr("sys.stdout", TextIOWrapper(there, encoding="ascii", write_through=True))
    output.out().print("1.52×")
    output.list_out("speedup", rows=[["1.52×"]])
    assert there.getvalue().count(rb"1.52\xd7") == 2


def test_a_file_in_a_folder_that_is_missing_is_bad_input(tmp_path: Path) -> None:
    with (
        pytest.raises(errors.BadInputError, match=r"none/a\.jsonl: expected a file in a folder"),
        output.in_place_of(tmp_path / "none" / "a.jsonl"),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_whole_stays_as_it_was(tmp_path: Path) -> None:
    there = tmp_path / "a.parquet"
    there.write_text("before")
    with suppress(OSError), output.draft_of(there) as draft:
        draft.write_text("half")
        raise OSError("the disk is full")
    assert [each.read_text() for each in tmp_path.iterdir()] == ["before"]
    with output.draft_of(there) as draft:
        draft.write_text("whole")
    assert [each.read_text() for each in tmp_path.iterdir()] == ["whole"]


@pytest.mark.parametrize("place", [output.draft_of, output.folder_in_place_of, output.in_place_of])
def test_a_full_disk_names_what_was_to_be_made(
    tmp_path: Path, place: Callable[[Path], AbstractContextManager[object]]
) -> None:
    with pytest.raises(OSError, match="No space left") as raised, place(tmp_path / "rows"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert str(tmp_path / "rows") in errors.translate(raised.value).message
    assert list(tmp_path.iterdir()) == []
