"""Operators of a call that a dispatch mode does not see, from torch's execution trace (CPU device).

A mode sees the operators of its thread, down to the first that Python implements.  The trace also
has those of other threads, of custom operators' bodies, and of code that disables modes.  It costs
2 ms for each operator, so only profiled calls are traced.  Operators that the mode has counted are
marked (`accounted`) and omitted here.
"""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import torch
from torch._C import _profiler
from torch.utils.flop_counter import flop_registry

MOST_BYTES = 64 << 20
"""Largest trace that is read; it has 12,000 operators."""

MULTIPLYING = frozenset(
    {"linear", "rnn", "lstm", "gru", "cdist", "trilinear", "linalg", "solve", "inverse", "cholesky"}
)
"""Parts of the names of operators that multiply matrices."""

CONVOLVED = 3
"""Least number of dimensions of a convolution's input."""

PACKED_KERNEL = 3
"""Width of a convolution's kernel that is taken where its weight is not known."""

OPERATOR_BYTES = 5_000
"""Bytes of one operator in a trace."""

LAUNCH_BYTES = 5_000_000
"""Bytes that a GPU moves in the time of its shortest kernel: work assumed for each operator of a
trace that is too large to be read.
"""

_MARK = f"assay.{secrets.token_hex(8)}"
_Noted = torch.autograd.profiler.record_function
_add = _profiler._add_execution_trace_observer
_enable = _profiler._enable_execution_trace_observer
_disable = _profiler._disable_execution_trace_observer
_remove = _profiler._remove_execution_trace_observer
_parse = json.loads
"""Bound at import, before a candidate could replace them."""

_VENDORS = frozenset(
    name.partition(".")[0]
    for name in torch._C._dispatch_get_all_op_names()
    if not name.startswith(("aten::", "prim::", "prims::"))
)
"""Operators of oneDNN, FBGEMM and others that torch is built with; read at import, before a
candidate could add its own.
"""


class Unseen(NamedTuple):
    """One operator that the dispatch mode has not counted."""

    name: str
    moved_bytes: int
    flops: int


def accounted() -> Any:
    """Context of operators that are counted elsewhere."""
    return _Noted(_MARK)


@contextmanager
def trace(found: list[Unseen], free: Collection[str]) -> Iterator[None]:
    """Trace all threads while the context is open, and add unmarked operators to `found`.

    `free`: names of operators that access no element.
    """
    number, path = tempfile.mkstemp(suffix=".json")
    with os.fdopen(number, "rb") as file:
        with _without_messages():
            _remove()  # an observer of the candidate: there can be only one
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
    """Operators of the trace in a file; if it cannot be read, more work than any call has."""
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
    """Suppress the line that the observer writes to standard error, which is the candidate's."""
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


def unmarked(nodes: Iterable[dict[str, Any]], free: Collection[str] = ()) -> list[Unseen]:
    """The unmarked operators of a trace that access memory.  Of operators that call others only the
    called ones count; of products both, because only the outer one has the arithmetic.  `free`:
    names of operators that access no element.
    """
    by_number = {node["id"]: node for node in nodes}
    above = {number: node["ctrl_deps"] for number, node in by_number.items()}
    work = {
        number
        for number, node in by_number.items()
        if "::" in node["name"] and node["name"] not in free
    }
    callers = _around({above[number] for number in work}, above)
    redispatched = _redispatched(
        {number: node["name"] for number, node in by_number.items()}, above
    )
    accounted = _at_and_around(
        {number for number, node in by_number.items() if node["name"] == _MARK}, above
    )
    found = []
    for number in sorted(work - accounted):
        node = by_number[number]
        formula = _formula(node["name"])
        is_product = formula or (number not in redispatched and _is_vendors(node["name"]))
        if number in callers and not is_product:
            continue
        unseen = Unseen(node["name"], _moved(node), _flops(node, formula))
        if unseen.moved_bytes or unseen.flops:
            found.append(unseen)
    return found


def _is_vendors(name: str) -> bool:
    """Test for a product of a library beside torch, by one operator, which may call others to
    allocate or to copy.
    """
    return name in _VENDORS and _multiplies(name)


def _redispatched(names: Mapping[int, str], above: Mapping[int, int]) -> set[int]:
    """Nodes that call an operator of their own name: a dispatcher's layers above its kernel."""
    found: set[int] = set()
    for number in names:
        caller = above[number]
        while caller in names and names[caller] != names[number]:
            caller = above[caller] if above[caller] < caller else -1  # numbers ascend
        found |= {caller} & names.keys()
    return found


def _around(numbers: set[int], above: Mapping[int, int]) -> set[int]:
    """These nodes, and all of their callers."""
    around: set[int] = set()
    for each in numbers:
        number = each
        while number in above and number not in around:
            around.add(number)
            number = above[number]
    return around


def _at_and_around(marks: set[int], above: Mapping[int, int]) -> set[int]:
    """The marks, all of their callers, and all nodes that they call.  A node's number is higher
    than its parent's.
    """
    around, below = _around(marks, above), set(marks)
    for number in sorted(above):
        if above[number] in below:
            below.add(number)
    return around | below


def _moved(node: dict[str, Any]) -> int:
    """Bytes of the tensors that an operator reads and writes; 0 for one that only makes a view."""
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


def arithmetic(
    name: str, given: Sequence[int], written: Iterable[int], weight: Sequence[int] = ()
) -> int:
    """Operations of an operator for which torch has no formula: those of a convolution with this
    weight, or of a matrix product of these sizes, if its name is that of a product, else 0.

    `given`, `written`: numbers of elements of the tensors that it reads and writes; `weight`: the
    shape of its second argument.
    """
    if not _multiplies(name):
        return 0
    factors, results = sorted(given)[-2:], sorted(written)[-1:]
    if "conv" in name and len(weight) > 2 and results:
        places = given[0] if "transpose" in name else results[0]
        return 2 * places * math.prod(weight[1:])
    return (
        2 * math.isqrt(math.prod([*factors, *factors[:1]][:2]) * math.prod(results))
        if factors and results
        else 0
    )


def _multiplies(name: str) -> bool:
    return any(
        part in MULTIPLYING or part.endswith("mm") or re.match(r"conv(?!ert)", part)
        for part in re.split(r"[:_.]+", name)
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
    given, written = (
        [count for _, _, count in _tensors(each["values"])] for each in (inputs, outputs)
    )
    return arithmetic(node["name"], given, written, _weight(inputs["shapes"]))


def _weight(shapes: Sequence[Any]) -> Sequence[int]:
    """Shape of the second of these arguments; where the library has packed it into an object,
    that of a convolution with as many channels.
    """
    first, second = (*shapes, [], [])[:2]
    if second or len(first) < CONVOLVED:
        return second if all(isinstance(size, int) for size in second) else ()
    return 1, first[1], *(PACKED_KERNEL for _ in first[2:])
