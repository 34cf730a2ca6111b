"""ATIF out and in: written files are read back, those of others are understood or
refused by their place.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import atif
from app.domain.atif import Answer, AtifError, Dialogue
from app.domain.collection import texts
from app.domain.trajectory import Message

TEXTS = st.text(max_size=20) | st.sampled_from(
    ["", "<think>\nx\n</think>\n\ny", "<think>\n\n</think>\n\n", "</think>"]
)
MESSAGES = st.builds(
    Message, role=st.sampled_from(["system", "user", "assistant", "tool"]), content=TEXTS
)
ANSWERS = st.builds(
    Answer,
    messages=st.lists(MESSAGES, max_size=3).map(tuple),
    response=st.builds(texts.as_turn, TEXTS, st.none() | TEXTS),
    timestamp=st.none() | st.just("2026-11-23T10:00:00+00:00"),
    model=st.none() | st.just("m"),
    metrics=st.fixed_dictionaries(
        {}, optional={"prompt_tokens": st.integers(0, 9), "completion_token_ids": st.just([1, 2])}
    ),
    extra=st.fixed_dictionaries({}, optional={"status": st.just("passed")}),
)
DIALOGUES = st.builds(
    Dialogue,
    trajectory_id=st.none() | st.just("t"),
    session_id=st.none() | st.just("s"),
    model=st.none() | st.just("m"),
    answers=st.lists(ANSWERS, min_size=1, max_size=4).map(tuple),
    extra=st.just({"reference": "class Model: ..."}),
)


@given(DIALOGUES)
def test_what_is_written_is_read_back(dialogue: Dialogue) -> None:
    document = json.loads(json.dumps(atif.document(dialogue, "1")))
    assert atif.dialogue(document) == dialogue
    steps = document["steps"]
    assert [step["step_id"] for step in steps] == list(range(1, len(steps) + 1))
    for step in steps:
        own = step["source"] == "agent" and not step.get("is_copied_context")
        assert step.keys() & {"model_name", "metrics", "reasoning_content", "llm_call_count"} == (
            step.keys() & {"model_name", "metrics", "reasoning_content", "llm_call_count"}
            if own
            else set()
        )


def test_totals_are_sums_of_what_every_step_has() -> None:
    answers = tuple(
        Answer(messages=(Message(role="user", content="go"),), response="ok", metrics=each)
        for each in ({"prompt_tokens": 3, "cost_usd": 0.5}, {"prompt_tokens": 4})
    )
    made = Dialogue(trajectory_id="t", session_id=None, model=None, answers=answers)
    assert atif.document(made, "1")["final_metrics"] == {"total_steps": 4, "total_prompt_tokens": 7}


def foreign(*steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    numbered = [{"step_id": number, **step} for number, step in enumerate(steps, start=1)]
    return {
        "schema_version": "ATIF-v1.7",
        "agent": {"name": "other", "version": "1"},
        "steps": numbered,
        **fields,
    }


def test_observations_copied_context_and_dispatches_are_messages() -> None:
    found = atif.dialogue(
        foreign(
            {"source": "system", "message": "Be quick."},
            {
                "source": "user",
                "message": [
                    {"type": "text", "text": "Write"},
                    {"type": "text", "text": "a kernel"},
                ],
            },
            {"source": "agent", "message": "old", "is_copied_context": True},
            {
                "source": "agent",
                "message": "first",
                "reasoning_content": "hm",
                "observation": {
                    "results": [{"source_call_id": "c", "content": "2 lines"}, {"content": "wrong"}]
                },
            },
            {"source": "agent", "message": "dispatch", "llm_call_count": 0},
            {"source": "agent", "message": "second"},
            {"source": "user", "message": "unanswered"},
        )
    )
    said = [[(each.role, each.content) for each in answer.messages] for answer in found.answers]
    assert said == [
        [("system", "Be quick."), ("user", "Write\na kernel"), ("assistant", "old")],
        [("tool", "2 lines"), ("user", "wrong"), ("assistant", "dispatch")],
    ]
    assert [answer.response for answer in found.answers] == [
        "<think>\nhm\n</think>\n\nfirst",
        "second",
    ]


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ([], "document: expected an object"),
        (foreign(schema_version="1.7"), "schema_version: expected one of ATIF-v1.0"),
        (foreign(agent=None), "agent: expected an object"),
        (foreign(steps={}), "steps: expected a list"),
        (
            foreign({"source": "robot", "message": ""}),
            "step 1: source: expected one of system, user, agent",
        ),
        (foreign({"source": "user", "message": 1}), "step 1: message: expected text"),
        (
            foreign({"source": "user", "message": [{"type": "image"}]}),
            "step 1: message: expected text",
        ),
        (
            foreign({"source": "agent", "message": "", "metrics": [1]}),
            "step 1: metrics: expected an object",
        ),
        (foreign({"source": "user", "message": "hi"}), "at least one answer"),
    ],
)
def test_a_bad_document_is_refused_by_its_place(document: Any, said: str) -> None:
    with pytest.raises(AtifError, match=said):
        atif.dialogue(document)
