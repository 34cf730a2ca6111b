"""Messages of a dialogue, word by word where a model could misread them."""

from __future__ import annotations

import pytest

from app.domain.collection import templates, texts
from app.domain.collection.answers import Why
from app.domain.collection.spec import CollectionSpec, Problems
from app.domain.problem import Problem

SHIPPED = {(each.name, each.kind): each for each in templates.shipped()}
NAMES = sorted({name for name, _ in SHIPPED})
REFERENCE = "class Model: ...\n"
SPEC = CollectionSpec(
    name="c", problems=Problems(source_set="tests"), endpoint="m", strategy={"name": "sequential"}
)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ending", ["", "\n", "\n\n"])
def test_a_fence_follows_the_last_line_of_the_reference(name: str, ending: str) -> None:
    problem = Problem(
        name="p", reference=REFERENCE.rstrip("\n").encode() + ending.encode(), source_set="tests"
    )
    (opening,) = texts.opening(SPEC, {"problem": SHIPPED[name, "problem"]}, problem)
    assert f"\n{REFERENCE}```" in opening.content


def test_feedback_says_which_turn_follows_and_how_turns_are_counted() -> None:
    told = texts.feedback(SPEC, SHIPPED["assay", "feedback"], turn=0, result=None, why=Why.NO_CODE)
    assert told.content.endswith("Your first answer was turn 0; the next one is turn 1.")
