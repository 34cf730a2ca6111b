"""Operators of a call that a dispatch mode does not see, by torch's own execution
trace, on the CPU device.

A mode sees the operators of its thread, down to the first that Python implements; the trace has
those of other threads, of custom operators' bodies, and of code that switches modes off.  It costs
2 ms for each operator, so that it is for one profiled call.  Operators that a mode accounts for are
marked (`accounted`), and left out here.
"""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import torch
from torch._C import _profiler
from torch.utils.flop_counter import flop_registry

MOST_BYTES = 64 << 20
"""Longest trace that is read: 12,000 operators."""

MULTIPLYING = frozenset(
    {"linear", "rnn", "lstm", "gru", "cdist", "trilinear", "linalg", "solve", "inverse", "cholesky"}
)
"""Parts of the names of operators that multiply."""

OPERATOR_BYTES = 5_000
"""Length of an operator's part of a trace."""

LAUNCH_BYTES = 5_000_000
"""Bytes that a GPU moves in the time of its shortest kernel: least work of operators
that are too many to be read.
"""

_MARK = f"assay.{secrets.token_hex(8)}"
_Noted = torch.autograd.profiler.record_function
_add = _profiler._add_execution_trace_observer
_enable = _profiler._enable_execution_trace_observer
_disable = _profiler._disable_execution_trace_observer
_remove = _profiler._remove_execution_trace_observer
_parse = json.loads
"""Bound at import, before a candidate could replace them."""


class Unseen(NamedTuple):
    """One operator that no mode accounted for."""

    name: str
    moved_bytes: int
    flops: int


def accounted() -> Any:
    """A context for operators that are counted elsewhere."""
    return _Noted(_MARK)


@contextmanager
def trace(found: list[Unseen], free: Collection[str]) -> Iterator[None]:
    """Trace all that runs inside, in every thread, and add to `found` the operators
    that were not marked.

    `free`: names of operators that touch no element.
    """
    number, path = tempfile.mkstemp(suffix=".json")
    with os.fdopen(number, "rb") as file:
        with _without_messages():
            _remove()  # another's, in whose place this one would not be
            is_on = _add(path)
            _enable()
        Path(path).unlink()
        try:
            yield
        finally:
            with _without_messages():
                _disable()
                _remove()
            found += _read(file, free, is_on=is_on)


def _read(file: BinaryIO, free: Collection[str], *, is_on: bool) -> list[Unseen]:
    """Operators of the trace in this file; where it cannot be read, more than any call needs."""
    length = os.fstat(file.fileno()).st_size
    if is_on and length <= MOST_BYTES:
        with suppress(ValueError):
            return unmarked(_parse(file.read())["nodes"], free)
    return [
        Unseen(
            "operators that cannot be counted",
            max(length, MOST_BYTES) // OPERATOR_BYTES * LAUNCH_BYTES,
            0,
        )
    ]


@contextmanager
def _without_messages() -> Iterator[None]:
    """Standard error is the candidate's, and the observer writes a line there."""
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


def unmarked(nodes: Iterable[dict[str, Any]], free: Collection[str] = ()) -> list[Unseen]:
    """The operators of a trace that touch memory and were not marked; of those that call others,
    the others; but of products both, because only they know their arithmetic.  `free`: names of
    operators that touch no element.
    """
    by_number = {node["id"]: node for node in nodes}
    above = {number: node["ctrl_deps"] for number, node in by_number.items()}
    work = {
        number
        for number, node in by_number.items()
        if "::" in node["name"] and node["name"] not in free
    }
    callers = _around({above[number] for number in work}, above)
    accounted = _at_and_around(
        {number for number, node in by_number.items() if node["name"] == _MARK}, above
    )
    found = []
    for number in sorted(work - accounted):
        node = by_number[number]
        formula = _formula(node["name"])
        if number in callers and not formula:
            continue
        unseen = Unseen(node["name"], _moved(node), _flops(node, formula))
        if unseen.moved_bytes or unseen.flops:
            found.append(unseen)
    return found


def _around(numbers: set[int], above: Mapping[int, int]) -> set[int]:
    """These nodes, and all that they were called by."""
    around: set[int] = set()
    for each in numbers:
        number = each
        while number in above and number not in around:
            around.add(number)
            number = above[number]
    return around


def _at_and_around(marks: set[int], above: Mapping[int, int]) -> set[int]:
    """The marks, all that they were called by, and all that they called; a node has a
    higher number than its parent.
    """
    around, below = _around(marks, above), set(marks)
    for number in sorted(above):
        if above[number] in below:
            below.add(number)
    return around | below


def _moved(node: dict[str, Any]) -> int:
    """Bytes of the tensors that an operator reads and writes; 0 of one that only
    looks at memory in another way.
    """
    given, returned = (
        list(_tensors(node["inputs"]["values"])),
        list(_tensors(node["outputs"]["values"])),
    )
    places = {place for place, _, _ in given}
    new = [size for place, size, _ in returned if place not in places]
    schema = next((each["value"] for each in node["attrs"] if each["name"] == "op_schema"), "")
    if not new and "!)" not in schema:
        return 0
    return sum(size for _, size, _ in given) + (sum(new) or sum(size for _, size, _ in returned))


def _tensors(values: Any) -> Iterator[tuple[int, int, int]]:
    """Storage, bytes and elements of each tensor among the values: a list of identity, storage,
    offset, elements, bytes of an element, device.
    """
    if not isinstance(values, list):
        return
    if (
        len(values) == 6
        and isinstance(values[-1], str)
        and all(isinstance(each, int) for each in values[:-1])
    ):
        yield values[1], values[3] * values[4], values[3]
        return
    for each in values:
        yield from _tensors(each)


def _formula(name: str) -> Callable[..., int] | None:
    packet = (
        getattr(torch.ops.aten, name.removeprefix("aten::"), None)
        if name.startswith("aten::")
        else None
    )
    return flop_registry.get(packet)


def arithmetic(name: str, given: Iterable[int], written: Iterable[int]) -> int:
    """Operations of an operator that torch has no formula for: as many as a product of matrices of
    these sizes takes, where its name says that it multiplies; else 0.

    `given`, `written`: elements of the tensors that it reads and writes.
    """
    parts = re.split(r"[:_.]+", name)
    if not any(
        part in MULTIPLYING or part.endswith("mm") or re.match(r"conv(?!ert)", part)
        for part in parts
    ):
        return 0
    factors, results = sorted(given)[-2:], sorted(written)[-1:]
    return (
        2 * math.isqrt(math.prod([*factors, *factors[:1]][:2]) * math.prod(results))
        if factors and results
        else 0
    )


def _flops(node: dict[str, Any], formula: Callable[..., int] | None) -> int:
    inputs, outputs = node["inputs"], node["outputs"]
    if formula is not None:
        arguments = [
            shape if str(kind).startswith("Tensor(") else value
            for shape, kind, value in zip(
                inputs["shapes"], inputs["types"], inputs["values"], strict=True
            )
        ]
        with suppress(Exception):  # a formula that does not know these arguments
            return int(formula(*arguments, out_val=outputs["shapes"][0]))
    return arithmetic(
        node["name"],
        *([count for _, _, count in _tensors(each["values"])] for each in (inputs, outputs)),
    )
