"""COLLECT: texts of a dialogue: its opening, an answer as later prompts show it, the
feedback on it.

Collections and trainers' sessions (app.client.session) take every message from here,
so that both say the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from app.domain.collection import feedback as feedback_texts
from app.domain.collection import templates
from app.domain.collection.spec import CollectionSpec
from app.domain.collection.templates import FEEDBACK, PROBLEM, SYSTEM, Template
from app.domain.dataset.code_extraction import THOUGHT_END, THOUGHT_START
from app.domain.problem import CASES_WORKFLOW, Problem
from app.domain.request import Request
from app.domain.result import Result
from app.domain.source import source_text
from app.domain.trajectory import Message

NO_ANSWER = "(no answer)"
"""Stands for an answer of nothing but blanks in a later prompt: servers refuse
messages without content.
"""


def refs(spec: CollectionSpec) -> dict[str, str]:
    """Kind → template as the specification names it, for the kinds that it uses."""
    chosen = {PROBLEM: spec.prompts.problem, FEEDBACK: spec.prompts.feedback}
    return chosen if spec.prompts.system is None else {**chosen, SYSTEM: spec.prompts.system}


def opening(spec: CollectionSpec, used: Mapping[str, Template], problem: Problem) -> list[Message]:
    """Messages with which every conversation on the problem begins.  `used`: kind → template."""
    values = {
        "reference": (
            source_text.display(problem.reference).rstrip("\n")
        ),  # a fence follows on its own line
        "entry_point": problem.entry_point,
        "backend": spec.backend,
        "device": spec.device_class,
    }
    roles = ((SYSTEM, "system"), (PROBLEM, "user"))
    return [
        Message(role=role, content=templates.fill(used[kind], values))
        for kind, role in roles
        if kind in used
    ]


def shown_later(spec: CollectionSpec, text: str, reasoning: str | None) -> Message:
    """The answer as later prompts show it."""
    kept = reasoning if spec.context.reasoning == "keep" else None
    return Message(role="assistant", content=as_turn(text if text.strip() else NO_ANSWER, kept))


def as_turn(text: str, reasoning: str | None) -> str:
    """The answer as a turn holds it: reasoning that came apart from the text stands before it."""
    return f"{THOUGHT_START}\n{reasoning}\n{THOUGHT_END}\n\n{text}" if reasoning else text


def apart(response: str) -> tuple[str, str | None]:
    """(Text, reasoning) of which `as_turn` makes the response; all of it is text
    where it has another form.
    """
    opened = response.removeprefix(f"{THOUGHT_START}\n")
    reasoning, closed, text = opened.partition(f"\n{THOUGHT_END}\n\n")
    return (text, reasoning) if opened != response and closed and reasoning else (response, None)


def feedback(
    spec: CollectionSpec, template: Template, *, turn: int, result: Result | None, why: str
) -> Message:
    """The user message that answers an attempt.  `turn`: number of its turn, from 0;
    `result`: None without a candidate.
    """
    told = feedback_texts.render(spec.prompts.feedback_version, result=result, why=why)
    text = templates.fill(template, {"feedback": told.text, "turn": str(turn + 1)})
    return Message(role="user", content=text)


def evaluation(spec: CollectionSpec, problem: Problem, code: str) -> Request:
    """The request that evaluates an answer's code."""
    return Request(
        problem=problem,
        candidate=source_text.encode(code),
        backend=spec.backend,
        device_class=spec.device_class,
        run=spec.name,
        options=spec.job_options,
        fresh=spec.fresh,
        workflow=CASES_WORKFLOW if problem.is_by_cases else Request.workflow,
    )
