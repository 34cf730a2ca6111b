"""Near-duplicates: steps within one trajectory, duplicates across trajectories."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.dataset.selection import Kind
from app.domain.source.near_duplicates import Similarity, fingerprint
from tests.unit.loss_plans import answers, attempts, select

SMALL_EDITS = [
    f"import triton\nBLOCK = {block}\nclass ModelNew:\n"
    + "".join(f"    field_{n} = {n}\n" for n in range(60))
    for block in (64, 128, 256)
]


def edited(*turns: str, trajectory: str = "t") -> list[dict[str, Any]]:
    rows = attempts(*turns, trajectory=trajectory)
    for row, source in zip(rows, SMALL_EDITS, strict=False):
        found = fingerprint(source)
        row |= {
            "normalised": found.normalised,
            "renamed": found.renamed,
            "signature": found.signature.hex(),
        }
    return rows


@pytest.mark.parametrize(
    ("turns", "rule", "taken"),
    [
        (("1.0", "1.5", "2.0"), "improving", ["t0", "t1", "t2"]),
        (("1.0", "1.5", "2.0"), "first_correct", ["t0"]),
        (("wrong", "1.5", "2.0"), "repair", ["t1"]),
        (("1.0", "1.5", "2.0"), "best", ["t2"]),
    ],
)
def test_small_edits_of_one_trajectory_are_steps_and_no_duplicates(
    turns: Any, rule: str, taken: list[str]
) -> None:
    plan, _ = select(edited(*turns), similarity=Similarity.MINHASH, turns=rule)
    assert answers(plan) == taken


def test_a_masked_dialogue_of_small_edits_keeps_its_marks() -> None:
    [row], _ = select(edited("1.0", "1.5", "2.0"), Kind.MASKED, similarity=Similarity.MINHASH)
    assert row["train"] == [0, 1, 2]


def test_small_edits_in_two_trajectories_and_without_history_are_duplicates() -> None:
    rows = [
        *edited("1.0"),
        edited("1.0", "1.5", trajectory="u")[1] | {"turn": 0, "prompt": "opening"},
    ]
    assert answers(select(rows, similarity=Similarity.MINHASH)[0]) == ["u1"]
    assert answers(select(edited("1.0", "1.5"), Kind.SINGLE, similarity=Similarity.MINHASH)[0]) == [
        "t1"
    ]


def test_the_same_code_twice_in_a_trajectory_is_one_row() -> None:
    rows = attempts("1.0", "1.0")
    for row in rows:
        row["source_sha256"] = "same"
    assert len(select(rows, similarity=Similarity.RAW)[0]) == 1
