"""ENQUEUE: input of trainers' reward hooks: a model's answer, and a label that names
the problem.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.domain.backend import DEFAULT_BACKEND
from app.domain.dataset import code_extraction
from app.domain.request import RequestError
from app.domain.rollout import UNKNOWN, Place

KEYS = ("problem_id", "reference", "reference_code", "entry_point", "backend", "gpu")
"""Texts of a label; `reference_code` is the name of `reference` in exported prompts."""
PLACE = ("run", "model", "group", "step", "sample")
"""Keys for an answer's place in a training; the last two are numbers."""
PROMPT = "prompt"
"""Messages, or a text."""


@dataclass(frozen=True, kw_only=True)
class Label:
    """Problem that an answer is for, and settings of its evaluation."""

    problem_id: UUID | None = None
    reference: str | None = None
    entry_point: str = "Model"
    backend: str = DEFAULT_BACKEND
    gpu: str | None = None
    """Device class; None leaves it to the server."""
    prompt: Any = None
    """Messages or text; None where the request has them."""
    place: Place = UNKNOWN


def candidate(answer: str) -> str:
    """The code of an answer: its last complete block, else all of it, after any thought.

    An answer without any code is a candidate, too, and is scored like one.  So is an answer that
    was cut off in a thought, whole: the code that it tried there was not its answer."""
    text = code_extraction.after_thought(answer)
    if code_extraction.is_cut_in_thought(text):
        return text
    block, _ = code_extraction.last_block(text)
    return text if block is None else block.strip("\n") + "\n"


def answer_in(query: str, prompt: str | None) -> str:
    """The answer in a text that begins with its prompt, so that code of the prompt
    is not taken for an answer's.
    """
    return query.removeprefix(prompt) if prompt else query


def label(text: Any) -> Label:
    """From the id of a stored problem, a JSON object with KEYS, PLACE and PROMPT (or one already
    decoded), or a reference's source.  Raises RequestError.
    """
    data = _decoded(text)
    expected = (*KEYS, *PLACE, PROMPT)
    if unknown := set(data) - set(expected):
        raise RequestError(
            f"label: expected {', '.join(expected)}, got {', '.join(sorted(map(str, unknown)))}"
        )
    given = {name: value for name, value in data.items() if value is not None}
    for name in KEYS:
        if not isinstance(given.get(name, ""), str):
            raise RequestError(f"label: {name}: expected text, got {type(given[name]).__name__}")
    reference = given.get("reference", given.get("reference_code"))
    problem_id = given.get("problem_id")
    if reference is None and problem_id is None:
        raise RequestError("label: expected problem_id, reference or both")
    return Label(
        problem_id=None if problem_id is None else _uuid(problem_id),
        reference=reference,
        prompt=given.get(PROMPT),
        place=place({name: given[name] for name in PLACE if name in given}, "label"),
        **{name: given[name] for name in ("entry_point", "backend", "gpu") if name in given},
    )


def place(given: Mapping[str, Any], where: str) -> Place:
    """Place from a mapping with names of PLACE; numbers may be written as text, and names may
    be numbers.  Raises RequestError.
    """
    found: dict[str, Any] = {}
    for name, value in given.items():
        if value is None or name not in PLACE:
            continue
        if name in ("step", "sample"):
            found[name] = _whole(value, f"{where}: {name}")
        elif isinstance(value, dict | list | tuple | bytes):
            raise RequestError(f"{where}: {name}: expected text, got {type(value).__name__}")
        else:
            found[name] = str(value)
    return Place(**found)


def _whole(value: Any, where: str) -> int:
    """A whole number, as a number or as text: 3, 3.0, "3"."""
    try:
        number = int(value)
        if not isinstance(value, bool) and (isinstance(value, str) or number == value):
            return number
    except (TypeError, ValueError, OverflowError):
        pass
    raise RequestError(f"{where}: expected a whole number, got {value!r:.100}")


def _decoded(text: Any) -> dict[str, Any]:
    if isinstance(text, dict):
        return text
    if not isinstance(text, str) or not text.strip():
        raise RequestError(
            f"label: expected a problem's id, a JSON object or a reference's source, got {text!r}"
        )
    if text.lstrip().startswith("{"):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise RequestError(f"label: expected a JSON object: {error}") from error
        assert isinstance(found, dict)  # it begins with a brace
        return found
    return {"reference": text} if "\n" in text.strip() else {"problem_id": text.strip()}


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise RequestError(f"label: problem_id: expected a UUID, got {text!r}") from None
