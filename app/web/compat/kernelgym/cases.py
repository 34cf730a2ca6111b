"""BROWSE: the cases of a KernelGYM task (workflow `kernel_simple`), checked, and as
the source of a problem.  Pure.

There, cases come inline, as source, or from the candidate itself, and a task without
outputs is timed and compared with nothing.  Here neither of the last two is served:
it would be a pass for nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

INLINE = "inline"
CODE = "cases_code"

NOTHING = "without outputs there is nothing to compare with"

_HEAD = '''"""Cases that came with the request."""

import json

CASES = (
'''
_TAIL = """)


def get_cases():
    return [json.loads(case) for case in CASES]
"""


def source_of(cases: Any, code: str | None) -> str:
    """The problem: a module that defines get_cases().  Raises ValueError with the
    expected form and the one received.
    """
    if cases is not None and code:
        raise ValueError("cases, cases_code: expected one of them, got both")
    if cases is not None:
        return _module(checked(cases))
    if not code:
        raise ValueError(
            "cases, cases_code: expected one of them, got neither: a candidate that brings its own"
            " tests proves nothing"
        )
    if "get_cases" not in code:
        came = f"get_inputs() alone: {NOTHING}" if "get_inputs" in code else "none"
        raise ValueError(
            f"cases_code: expected a get_cases() that makes inputs with their outputs, found {came}"
        )
    return code


def checked(cases: Any) -> list[dict[str, Any]]:
    """Inline cases, one or several, in the words of app.workflows.kernel_simple.
    JSON has no tensors: lists of numbers reach the candidate as lists of numbers, as
    there.  Raises ValueError.
    """
    listed = [cases] if isinstance(cases, dict) else cases
    if not isinstance(listed, list) or not listed:
        raise ValueError(f"cases: expected an object or a list of at least one, got {_kind(cases)}")
    return [_case(case, f"cases[{index}]") for index, case in enumerate(listed)]


def count(cases: list[Any] | dict[str, Any]) -> int:
    """Number of `checked` cases."""
    return 1 if isinstance(cases, dict) else len(cases)


def _case(case: Any, where: str) -> dict[str, Any]:
    if not isinstance(case, dict):
        raise ValueError(
            f"{where}: expected an object with inputs and outputs, got {_kind(case)}: {NOTHING}"
        )
    inputs, outputs = (_either(case, name) for name in ("inputs", "outputs"))
    if outputs is None:
        raise ValueError(
            f"{where}: expected outputs, found {', '.join(sorted(case)) or 'nothing'}: {NOTHING}"
        )
    if inputs is None:
        raise ValueError(f"{where}: expected inputs, found {', '.join(sorted(case))}")
    found = {"inputs": inputs if isinstance(inputs, list | dict) else [inputs], "outputs": outputs}
    given = {name: case[name] for name in ("name", "rtol", "atol") if case.get(name) is not None}
    _check_rest(given, where)
    return found | given


def _either(case: Mapping[str, Any], name: str) -> Any:
    """The field under its name, or in the singular, as the protocol takes both."""
    found = case.get(name)
    return case.get(name.removesuffix("s")) if found is None else found


def _check_rest(given: Mapping[str, Any], where: str) -> None:
    for name, value in given.items():
        if name == "name":
            if not isinstance(value, str):
                raise ValueError(f"{where}.name: expected text, got {_kind(value)}")
        elif type(value) not in (int, float) or not 0 <= value < math.inf:
            raise ValueError(
                f"{where}.{name}: expected a number from 0 on, got {json.dumps(value)[:80]}"
            )


def _module(cases: list[dict[str, Any]]) -> str:
    """Each case is a text literal and never code: its content cannot end the literal."""
    return (
        _HEAD + "".join(f"    {json.dumps(case, allow_nan=False)!r},\n" for case in cases) + _TAIL
    )


def _kind(value: Any) -> str:
    """Kind of a value, in the words of JSON."""
    if isinstance(value, list):
        return f"a list of {len(value)}"
    names = {dict: "an object", str: "text", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), "null")
