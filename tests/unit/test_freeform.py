"""Free-form JSON: refusals where it comes in, and cuts where it is stored already."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.domain import freeform
from app.domain.request import RequestError


def nested(levels: int, *, lists: bool = False) -> Any:
    """That many containers inside each other around a number."""
    value: Any = 1
    for _ in range(levels):
        value = [value] if lists else {"a": value}
    return value


@pytest.mark.parametrize("lists", [False, True])
def test_the_deepest_that_is_taken_is_the_limit(lists: bool) -> None:
    freeform.check(nested(freeform.MOST_DEPTH, lists=lists), "settings")
    with pytest.raises(
        RequestError, match=r"settings: expected at most 32 lists and objects inside each other"
    ):
        freeform.check(nested(freeform.MOST_DEPTH + 1, lists=lists), "settings")


def test_depth_is_told_without_a_stack() -> None:
    with pytest.raises(RequestError, match="inside each other"):
        freeform.check_depth(nested(100_000), "settings")


@pytest.mark.parametrize("levels", [41, 900, 100_000])
def test_a_body_that_is_too_deep_is_refused(levels: int) -> None:
    with pytest.raises(RequestError, match=r"body: expected at most 40 lists and objects"):
        freeform.load(b'{"a":' * levels + b"1" + b"}" * levels)


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "1e999", "{", "[1,]", "\u0001"])
def test_a_body_is_strict_json(text: str) -> None:
    with pytest.raises(RequestError, match="body: expected JSON"):
        freeform.load(text.encode())


@pytest.mark.parametrize(
    "value",
    [
        "a\0",
        "\ud800",
        {"\0": 1},
        [float("inf")],
        {"a": {"b": float("nan")}},
        {"a": {1, 2}},
        {"a": [b"b"]},
        {1: 2},
    ],
)
def test_what_no_column_holds_is_refused(value: Any) -> None:
    with pytest.raises(RequestError, match="settings"):
        freeform.check(value, "settings")


def test_what_is_stored_already_is_cut() -> None:
    shallow = nested(freeform.MOST_DEPTH)
    assert freeform.cut(shallow) == shallow
    shown = json.dumps(freeform.cut(nested(900)))
    assert freeform.CUT in json.loads(f"[{shown}]", parse_float=float).__repr__()
    assert shown.count("{") == freeform.MOST_DEPTH


def test_a_body_of_brackets_is_refused_before_it_is_decoded() -> None:
    with pytest.raises(RequestError, match="brackets and commas"):
        freeform.load(b"[" + b"[]," * 4_000_000 + b"[]]")
    assert len(freeform.load(b"[" + b"1," * 1_000_000 + b"1]")) == 1_000_001
