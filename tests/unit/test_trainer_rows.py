"""Trainers' rows and turns, without a service: problems, figures of a dialogue,
rewards on tokens.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from app.client.session import as_spec
from app.domain.request import RequestError
from app.integrations import sessions, trl
from app.integrations.trl_rollout import turn_sum
from workers.training import turn_credit

MASK = torch.tensor([[1, 1, 0, 1, 0], [0, 1, 1, 1, 0]])


def test_the_problem_of_a_row_is_its_reference_where_no_stored_one_is_named() -> None:
    row = {
        "reference_code": "class Net: ...",
        "entry_point": "Net",
        "problem_id": "row 7 of another data set",
    }
    problem = sessions.problem_of(row)
    assert (problem.reference, problem.entry_point, problem.source_set) == (
        b"class Net: ...",
        "Net",
        "adhoc",
    )
    with pytest.raises(RequestError, match="row: expected reference or problem_id, got neither"):
        sessions.problem_of({"problem_id": "none"})


@pytest.mark.parametrize(
    "spec", [{"context": {"history": "window"}}, {"strategy": {"name": "windowed", "turns": 9}}]
)
def test_a_row_of_tokens_needs_prompts_that_only_grow(spec: dict[str, Any]) -> None:
    with pytest.raises(
        RequestError, match=r"expected strategy\.name = 'sequential' and context\.history = 'whole'"
    ):
        sessions.check_grows(as_spec(spec))
    sessions.check_grows(as_spec(None))


def step(reward: float | None, **result: Any) -> SimpleNamespace:
    return SimpleNamespace(reward=reward, result=result or None)


def test_a_hack_is_not_correct_and_a_fault_counts_for_nothing() -> None:
    hack = step(0.0, correct=True, verdict="hack", speedup=None)
    fault = step(None, correct=None, verdict=None, speedup=None)
    clean = step(2.5, correct=True, verdict="clean", speedup=1.5)

    def figures(*steps: SimpleNamespace) -> dict[str, float]:
        told = SimpleNamespace(steps=steps, rewards=[each.reward for each in steps])
        return sessions.figures(told)  # type: ignore[arg-type]

    assert figures(hack, fault) == {"turns": 1, "correct": 0, "hack": 1, "best_speedup": 0}
    assert figures(step(0.0), clean) == {"turns": 2, "correct": 1, "hack": 0, "best_speedup": 1.5}
    assert figures().keys() == figures(clean).keys()


def test_the_sum_of_turns_is_missing_where_one_of_them_is() -> None:
    assert turn_sum([[1.0, 2.0], [1.0, None], []], prompts=["p"] * 3) == [3.0, None, 0]


def test_rewards_stand_on_the_last_tokens_of_their_turns() -> None:
    found = turn_credit.at_turn_ends([[1.0, None], [2.0]], MASK)
    assert found[0].tolist()[:3] == [0, 1, 0]
    assert math.isnan(found[0, 3])
    assert found[1].tolist() == [0, 0, 0, 2, 0]
    turns = turn_credit.spans(found, MASK, ["p", "p"], first_row=4).turns
    assert [(each.trajectory, each.index, each.reward, each.tokens) for each in turns] == [
        (4, 1, 1.0, 2),
        (4, 2, None, 1),
        (5, 1, 2.0, 3),
    ]
    with pytest.raises(
        ValueError, match="row 1: expected 2 turns, one for each reward, got 1 in the mask"
    ):
        turn_credit.at_turn_ends([[1.0, None], [2.0, 1.0]], MASK)


@pytest.mark.parametrize(
    ("completion", "text"),
    [
        ("code", "code"),
        ([{"role": "assistant", "content": "code"}], "code"),
        (
            [
                {
                    "role": "assistant",
                    "content": [{"type": "text", "text": "co"}, {"type": "text", "text": "de"}],
                }
            ],
            "code",
        ),
        (
            [
                {
                    "role": "assistant",
                    "content": [{"type": "image"}, {"type": "text", "text": "code"}],
                }
            ],
            "code",
        ),
        ([{"role": "assistant", "content": None}], ""),
        ([{"role": "assistant", "tool_calls": []}], ""),
    ],
)
def test_the_answer_of_a_completion_is_its_text(completion: Any, text: str) -> None:
    assert trl.text_of(completion) == text


@pytest.mark.parametrize("completion", [None, 5, [], ["text"], {"content": "x"}])
def test_a_completion_of_another_kind_is_named(completion: Any) -> None:
    with pytest.raises(RequestError, match="completions: expected text, or messages"):
        trl.text_of(completion)
