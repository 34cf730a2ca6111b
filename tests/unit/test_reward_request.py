"""Answers and labels that trainers hand over."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest

from app.domain import reward_request
from app.domain.request import RequestError

ID = UUID("01a1fddf-d81b-712c-a9d1-55d726f93000")


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("```python\nfirst\n```\nand\n```\nlast\n```\n", "last\n"),
        ("<think>```python\nno\n```</think>So:\n```python\nyes\n```", "yes\n"),
        ("class ModelNew: ...", "class ModelNew: ..."),
        ("```python\nwhole\n```\n```python\ncut off", "whole\n"),
        ("<think>never ends", "<think>never ends"),
        ("<think>```python\ntried\n```\nor", "<think>```python\ntried\n```\nor"),
        ("", ""),
    ],
)
def test_the_code_of_an_answer(answer: str, code: str) -> None:
    assert reward_request.candidate(answer) == code


def test_code_of_the_prompt_is_no_answer() -> None:
    prompt = "Optimise\n```python\nclass Model: ...\n```\n"
    assert (
        reward_request.candidate(reward_request.answer_in(prompt + "I cannot.", prompt))
        == "I cannot."
    )


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        (str(ID), reward_request.Label(problem_id=ID)),
        (
            "import torch\nclass Model: ...",
            reward_request.Label(reference="import torch\nclass Model: ..."),
        ),
        (
            json.dumps({"problem_id": str(ID), "gpu": "h200"}),
            reward_request.Label(problem_id=ID, gpu="h200"),
        ),
        (
            {"reference": "r", "backend": "cuda", "gpu": None},
            reward_request.Label(reference="r", backend="cuda"),
        ),
        (
            {"reference": "r", "entry_point": "Net"},
            reward_request.Label(reference="r", entry_point="Net"),
        ),
    ],
)
def test_a_label_names_the_problem(label: Any, expected: reward_request.Label) -> None:
    assert reward_request.label(label) == expected


@pytest.mark.parametrize(
    ("label", "message"),
    [
        (None, "expected a problem's id"),
        ("", "expected a problem's id"),
        (7, "expected a problem's id"),
        ("softmax", "problem_id: expected a UUID, got 'softmax'"),
        ("{", "expected a JSON object"),
        ({}, "expected problem_id, reference or both"),
        ({"reference": "r", "step": "soon"}, "label: step: expected a whole number, got 'soon'"),
        ({"reference": "r", "step": 1.7}, "label: step: expected a whole number, got 1.7"),
        ({"reference": "r", "sample": True}, "label: sample: expected a whole number, got True"),
        ('{"reference": "r", "step": Infinity}', "label: step: expected a whole number, got inf"),
        ('{"reference": "r", "step": NaN}', "label: step: expected a whole number, got nan"),
        ({"reference": "r", "run": ["a"]}, "label: run: expected text, got list"),
        ({"reference": "r", "device": "x"}, "expected problem_id, reference, .*, got device"),
        ({"reference": 5}, "reference: expected text, got int"),
    ],
)
def test_other_labels_are_refused(label: Any, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        reward_request.label(label)


def test_numbers_of_a_place_come_in_several_forms() -> None:
    place = reward_request.label({"reference": "r", "step": "3", "sample": 4.0, "group": 5}).place
    assert (place.step, place.sample, place.group) == (3, 4, "5")
