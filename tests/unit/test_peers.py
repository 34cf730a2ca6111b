"""The bench over pairs of a folder: its table, the classes of outcomes, and the summary."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.domain.evaluation import Evaluation, Status
from app.domain.verdict import Label
from tests.bench import peers
from tests.integration import fakes
from tests.timings import timing


def _folder(tmp_path: Path, table: str | None = None) -> Path:
    for name, source in (
        ("a", b"import triton\n@triton.jit\ndef k(): pass\n"),
        ("b", b"import torch\n"),
    ):
        (tmp_path / f"{name}.reference.py").write_bytes(b"import torch\n")
        (tmp_path / f"{name}.candidate.py").write_bytes(source)
    if table is not None:
        (tmp_path / peers.TABLE).write_text(table)
    return tmp_path


def test_pairs_come_with_their_lines(tmp_path: Path) -> None:
    one, other = peers.pairs(
        _folder(tmp_path, "name\tkind\tbackend\tnote\na\thonest\t\tby hand\nb\thack\ttorch\t\n")
    )
    assert (one.name, one.kind, one.backend, one.note) == ("a", "honest", "triton", "by hand")
    assert (other.name, other.kind, other.backend, other.note) == ("b", "hack", "torch", "")


def test_pairs_without_a_table_are_only_shown(tmp_path: Path) -> None:
    assert [each.kind for each in peers.pairs(_folder(tmp_path))] == ["audit", "audit"]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("name\tkind\nc\thonest\n", "no such pairs: c"),
        ("name\tkind\na\tgood\n", "line 2: expected a name and a kind"),
        ("name\tkind\tbackend\na\thonest\tcupy\n", "expected backend triton, cuda or torch"),
    ],
)
def test_a_bad_table_is_refused_with_its_line(tmp_path: Path, table: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        peers.pairs(_folder(tmp_path, table))


def test_a_candidate_needs_its_reference(tmp_path: Path) -> None:
    (_folder(tmp_path) / "a.reference.py").unlink()
    with pytest.raises(ValueError, match=r"expected a\.reference\.py beside it"):
        peers.pairs(tmp_path)


PASSED = fakes.passed()
CLEAN = fakes.clean()


TIMING = timing(ci_low=1, ci_high=3)


def _timed(low: float) -> Evaluation:
    return replace(PASSED, timing=replace(TIMING, ci_low=low))


def _ended(status: Status) -> Evaluation:
    return replace(PASSED, status=status, error=fakes.incorrect().error)


@pytest.mark.parametrize(
    ("evaluation", "label", "came", "fine"),
    [
        (_timed(1.5), Label.CLEAN, "credited", {"honest", "policy", "audit"}),
        (_timed(0.9), Label.CLEAN, "slow", {"honest", "hack", "policy", "audit"}),
        (_timed(1.5), Label.SUSPECT, "accused", {"hack", "incorrect", "policy", "audit"}),
        (
            _ended(Status.INCORRECT),
            Label.CLEAN,
            "refused",
            {"hack", "incorrect", "policy", "audit"},
        ),
        (_ended(Status.INVALID), Label.CLEAN, "invalid", set(peers.KINDS)),
    ],
    ids=["credited", "slow", "accused", "refused", "invalid"],
)
def test_what_comes_out_is_held_to_the_kind(
    evaluation: Evaluation, label: Label, came: str, fine: set[str]
) -> None:
    found = peers.outcome(evaluation, replace(CLEAN, label=label), peers.WORTH)
    assert found == came
    assert {kind for kind in peers.KINDS if peers.is_expected(kind, found)} == fine


def test_the_table_counts_by_kind_and_names_what_comes_out_otherwise(tmp_path: Path) -> None:
    made: list[Any] = peers.pairs(_folder(tmp_path, "name\tkind\na\thonest\nb\thack\n"))
    rows = [peers.row(pair, _timed(1.5), CLEAN, peers.WORTH, 1.0) for pair in made]
    text = peers.table(rows)
    assert "1 of 2 as expected" in text
    assert "✗ hack      b: credited" in text
    assert peers.counts(rows)["honest"] == {"credited": 1}


def test_rows_are_written_as_they_come_and_no_pair_begins_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, clock = tmp_path / "rows.json", iter([0.0, 1.0, 9.0])
    written: list[list[str]] = []

    class OneSlot:
        slots, environment = 1, {"device_name": "fake"}

        def __init__(self, *_: Any) -> None: ...

        def end_on_signals(self) -> None: ...

        def evaluated(self, job: Any) -> Evaluation:
            return _timed(1.5)

        def close(self) -> None:
            written.append([row["name"] for row in json.loads(out.read_text())["rows"]])

    monkeypatch.setattr("tests.bench.gpu_fleet.Fleet", OneSlot)
    monkeypatch.setattr(peers, "judge", lambda *_: CLEAN)
    monkeypatch.setattr(peers.time, "monotonic", lambda: next(clock))
    folder = _folder(tmp_path, "name\tkind\na\thonest\nb\thonest\n")
    monkeypatch.setattr("sys.argv", ["peers", str(folder), "--within", "5", "--json", str(out)])
    with pytest.raises(SystemExit) as ended:
        peers.main()
    assert ended.value.code == 0
    assert written == [["a"]]
    assert "1 of 2 pairs were not begun within 5 s" in capsys.readouterr().out
