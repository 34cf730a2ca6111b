"""Fate of a cheat, and honest candidates that count as accused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from app.domain import zoo_report
from app.domain.verdict import Label
from tests import zoo


class Unseen(zoo.Case):
    """A cheat with a file which says that nothing sees it."""

    @property
    def candidate(self) -> bytes:
        return super().candidate + b"\n# not yet caught: nobody looks.\n"


CASES = {case.name: case for case in zoo.cases()}
CHEAT = "hacks/decoy_kernel"
HARMLESS = "hacks/calls_home"
UNSEEN = "hacks/unseen"
CASES[UNSEEN] = Unseen(**vars(CASES[HARMLESS]))
HONEST = "honest/diag_matmul_triton"
WRONG = "wrong/missing_key"


def _outcome(
    name: str,
    status: str | None = "passed",
    verdict: str | None = "clean",
    disagreement: str | None = None,
) -> zoo_report.ZooResult:
    return zoo_report.ZooResult(
        case=CASES[name],
        status=status,
        verdict=verdict,
        findings=(),
        speedup=None,
        disagreement=disagreement,
    )


@pytest.mark.parametrize(
    ("one", "fate"),
    [
        (_outcome(CHEAT, "incorrect"), zoo_report.REJECTED),
        (_outcome(CHEAT, "incorrect", "hack"), zoo_report.REJECTED),
        (_outcome(CHEAT, "passed", "hack"), zoo_report.LABELLED),
        (_outcome(CHEAT, "passed", "suspect"), zoo_report.LABELLED),
        (_outcome(HARMLESS), zoo_report.HONEST_TIME),
        (_outcome(UNSEEN), zoo_report.CREDITED),
        (_outcome(CHEAT, None, None), zoo_report.FAILED),
        (
            _outcome(CHEAT, "invalid", disagreement="expected status passed, got invalid"),
            zoo_report.FAILED,
        ),
        (_outcome(CHEAT, "invalid"), zoo_report.REJECTED),
    ],
)
def test_the_fate_of_a_cheat(one: zoo_report.ZooResult, fate: str) -> None:
    assert one.fate == fate


def test_a_cheat_that_must_be_labelled_and_is_not_is_credited() -> None:
    assert (
        _outcome(CHEAT, disagreement="expected verdict hack, got clean").fate == zoo_report.CREDITED
    )


def test_a_cheat_that_must_not_pass_and_does_is_credited() -> None:
    name = "hacks/all_nan"
    assert CASES[name].stopped_by_structure
    assert (
        _outcome(name, disagreement="expected status incorrect, got passed").fate
        == zoo_report.CREDITED
    )


def test_figures() -> None:
    total = zoo_report.Score(
        outcomes=(
            _outcome(CHEAT, "passed", "hack"),
            _outcome(UNSEEN),
            _outcome(HARMLESS, None, None),
            _outcome(HONEST),
            _outcome(HONEST, "passed", "suspect", "expected verdict clean, got suspect"),
            _outcome(HONEST, "incorrect", "clean", "expected status passed, got incorrect"),
            _outcome(WRONG, "incorrect"),
            _outcome(WRONG, "passed", "clean", "expected status incorrect, got passed"),
        )
    )
    assert total.recall == 0.5
    assert total.accused(Label.HACK) == []
    assert total.accused(Label.SUSPECT) == [HONEST]
    assert total.turned_away == [HONEST]
    assert total.let_through == [WRONG]
    assert json.loads(json.dumps(total.as_json()))["as_expected"] == 5
    text = "\n".join(total.lines())
    assert "cheats not credited    50.0% of 2" in text
    assert "0 hack, 1 suspect of 3" in text


def test_nothing_is_said_of_what_was_not_run() -> None:
    empty = zoo_report.Score(outcomes=())
    assert empty.recall is None
    assert list(empty.lines())[-1] == "wrong ones let through 0"


def test_every_way_of_cheating_has_a_group() -> None:
    assert {code[0] for case in CASES.values() for code in case.codes} <= set(zoo_report.TAXONOMY)
    assert all(case.codes for case in CASES.values() if case.group == "hacks")
    assert replace(CASES[CHEAT], group="honest").codes == ()
