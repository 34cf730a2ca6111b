"""The drawing of a rollout's attempts."""

from __future__ import annotations

from typing import Any

import pytest

from app.web.charts import attempt_tree


def attempt(key: str, parent: str | None = None, *shown: str, **outcome: object) -> dict[str, Any]:
    return {"key": key, "parent": parent, "shown": list(shown), "outcome": outcome, "state": "done"}


BEAM = [
    attempt("0.0", status="passed", label="clean", speedup=2.0),
    attempt("0.1", status="incorrect", label="clean"),
    attempt("1.0", "0.0", "0.0", status="passed", label="hack"),
    attempt("1.1", "0.0", "0.0", "0.1", status="passed", label="suspect", speedup=3.0),
    attempt("2.0", "1.1", "0.0", "1.1", fault="evaluator_error"),
]


def drawn(attempts: list[dict[str, Any]], *picked: str) -> attempt_tree.Tree:
    found = attempt_tree.tree(attempts, picked)
    assert found is not None
    return found


def test_depth_is_across_and_an_attempt_stands_amid_those_made_from_it() -> None:
    found = drawn(BEAM)
    at = {node.attempt["key"]: (node.x, node.y) for node in found.nodes}
    assert [x for x, _ in at.values()] == [14, 14, 14 + 150, 14 + 150, 14 + 300]
    assert at["0.0"][1] == (at["1.0"][1] + at["1.1"][1]) / 2
    assert at["1.1"][1] == at["2.0"][1]
    leaves = [at[key][1] for key in ("1.0", "2.0", "0.1")]
    assert leaves == [14, 14 + 28, 14 + 56]
    assert found.height == max(leaves) + 14


def test_words_say_the_outcome_and_the_picked_are_marked() -> None:
    assert [(node.tone, node.words, node.is_picked) for node in drawn(BEAM, "1.1").nodes] == [
        ("good", "2.00×", False),
        ("warn", "incorrect", False),
        ("bad", "hack", False),
        ("warn", "3.00×", True),
        ("", "evaluator error", False),
    ]


def test_a_line_to_an_attempt_that_was_only_shown_is_dashed() -> None:
    assert [edge.is_shown_only for edge in drawn(BEAM).edges] == [False, False, False, True]


def test_parents_that_are_not_drawn_and_circles_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    assert attempt_tree.tree([], []) is None
    assert [
        node.x for node in drawn([attempt("1.0", "0.0"), attempt("1.1", None, "1.1")]).nodes
    ] == [14, 14]
    monkeypatch.setattr(attempt_tree, "MOST", 2)
    cut = drawn(BEAM)
    assert (len(cut.nodes), cut.left_out) == (2, 3)
