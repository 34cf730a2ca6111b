"""Descriptions of values: types and shapes of a problem's inputs, outputs, constructor arguments
and parameters, and their layout in shared memory.

A description is a tree of nodes, plain JSON: {"kind": "tensor", "dtype", "shape", "stride"},
{"kind": "int"|"float"|"bool"} (with values in memory too), {"kind": "none"|"str"|"dtype", "value"},
{"kind": "list"|"tuple", "items"}, {"kind": "tuple", "items", "name", "fields"} (a named tuple),
{"kind": "dict", "keys", "items"}, {"kind": "config", "value"} (a configuration of transformers, as
JSON).  It is made in the reference's process, checked by the referee, and given to the candidate's
process, which lays out the same memory from it.
"""

from __future__ import annotations

import functools
import keyword
import math
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from workers.protocol import pretrained
from workers.protocol.roundoff import computable, is_inexact
from workers.protocol.shared_memory import Memory

Node = dict[str, Any]

Leaf = torch.Tensor | bool | int | float
"""Type of the values that are stored in memory."""

ALIGNMENT = 256
"""Bytes; CUDA's allocator guarantees this alignment and vectorised kernels count on it."""

MAX_LEAVES = 4096
"""Most tensors of a problem's inputs or outputs; honest ones have dozens."""
MAX_DEPTH = 16
"""Nesting of lists, tuples and dictionaries around tensors."""

DTYPES: dict[str, torch.dtype] = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
        torch.complex64,
        torch.complex128,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
        torch.float8_e8m0fnu,
    )
}
_SCALARS = {"int": torch.int64, "float": torch.float64, "bool": torch.bool}
_CONTAINERS = (list, tuple, dict)

CARRIED = (
    "tensors, numbers, text, None, dtypes, and lists, tuples and dicts with text keys of these"
)
"""Values that have a description, as messages name them."""


class UnsupportedError(ValueError):
    """Error: a value that cannot be passed between processes, or a description that is none."""


def describe(value: object, depth: int = 0) -> Node:
    """The node of a value.  Raises UnsupportedError for a value that is neither tensor,
    number, text, dtype nor container.
    """
    if depth > MAX_DEPTH:
        raise UnsupportedError(f"values nested deeper than {MAX_DEPTH}")
    if isinstance(value, torch.Tensor):
        return _describe_tensor(value)
    if isinstance(value, bool | int | float):
        kinds = (bool, int, float)
        return {"kind": next(kind.__name__ for kind in kinds if isinstance(value, kind))}
    if value is None or isinstance(value, str):
        return {"kind": "none" if value is None else "str", "value": value}
    if isinstance(value, torch.dtype):
        return {"kind": "dtype", "value": str(value).removeprefix("torch.")}
    if pretrained.is_config(value):
        return {"kind": "config", "value": pretrained.packed(value)}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        node: Node = {"kind": kind, "items": [describe(item, depth + 1) for item in value]}
        return node | (
            {"name": type(value).__name__, "fields": list(_fields(value))} if _fields(value) else {}
        )
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        items = [describe(item, depth + 1) for item in value.values()]
        return {"kind": "dict", "keys": list(value), "items": items}
    came = (
        "a dict with other keys than text"
        if isinstance(value, dict)
        else f"a value of type {type(value).__name__}"
    )
    raise UnsupportedError(f"{came} cannot be handed over: expected {CARRIED}")


def _fields(value: object) -> tuple[str, ...]:
    """Names of a named tuple's fields; empty for any other value."""
    return tuple(getattr(value, "_fields", ())) if isinstance(value, tuple) else ()


def remade(value: list[Any] | tuple[Any, ...], items: Iterable[Any]) -> Any:
    """A list or tuple of the same type with other items."""
    kind: Any = type(value)
    return kind(*items) if _fields(value) else kind(items)


def mapped(change: Callable[[Any], Any], value: Any) -> Any:
    """The value with `change` applied to the items of its lists, tuples and dictionaries, in order.
    torch's function takes six times as long, and a recurrent network has 60,000 operators.
    """
    if isinstance(value, list | tuple):
        items = [mapped(change, x) if isinstance(x, _CONTAINERS) else change(x) for x in value]
        kind = type(value)
        return tuple(items) if kind is tuple else items if kind is list else remade(value, items)
    if isinstance(value, dict):
        return {key: mapped(change, each) for key, each in value.items()}
    return change(value)


@functools.cache
def _named_tuple(name: str, fields: tuple[str, ...]) -> Any:
    return namedtuple(name, fields)


def _describe_tensor(tensor: torch.Tensor) -> Node:
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in DTYPES or tensor.layout != torch.strided:
        known = ", ".join(DTYPES)
        raise UnsupportedError(
            f"tensors of {tensor.dtype}, {tensor.layout} are not supported: expected strided"
            f" tensors of {known}"
        )
    node: Node = {"kind": "tensor", "dtype": dtype, "shape": list(tensor.shape), "stride": None}
    if not tensor.is_contiguous() and _dense(tensor):
        node["stride"] = list(tensor.stride())  # a transposed input stays transposed
    return node


def _dense(tensor: torch.Tensor) -> bool:
    """Test whether the elements fill their extent without overlaps or gaps."""
    return (
        _extent(list(tensor.shape), list(tensor.stride())) == tensor.numel()
        and 0 not in tensor.stride()
    )


def _extent(shape: list[int], stride: list[int]) -> int:
    return (
        1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
        if 0 not in shape
        else 0
    )


def check(node: object, depth: int = 0) -> Node:
    """The node, after validation of kinds and sizes.  Raises UnsupportedError."""
    if not isinstance(node, dict) or depth > MAX_DEPTH:
        raise UnsupportedError(f"not a spec: {str(node)[:80]}")
    kind = node.get("kind")
    if kind == "tensor":
        shape, stride = node.get("shape"), node.get("stride")
        sizes = [*(shape if isinstance(shape, list) else [-1]), *(stride or [])]
        if node.get("dtype") not in DTYPES or not all(
            type(size) is int and 0 <= size < 1 << 40 for size in sizes
        ):
            raise UnsupportedError(f"not a tensor's spec: {str(node)[:80]}")
        if stride is not None and _extent(node["shape"], stride) != nelements(node):
            raise UnsupportedError(f"strides {stride} do not fill shape {shape}")
    elif kind in ("list", "tuple", "dict"):
        if not isinstance(node.get("items"), list):
            raise UnsupportedError(f"not a container's spec: {str(node)[:80]}")
        for item in node["items"]:
            check(item, depth + 1)
        if kind == "dict" and len(node.get("keys", ())) != len(node["items"]):
            raise UnsupportedError("keys and items differ in number")
        if "fields" in node:
            _check_fields(node)
    elif kind == "config":
        if (
            not isinstance(node.get("value"), str)
            or len(node["value"]) > pretrained.MAX_CONFIG_CHARS
        ):
            raise UnsupportedError(f"not a configuration's spec: {str(node)[:80]}")
    elif kind not in (*_SCALARS, "none", "str", "dtype"):
        raise UnsupportedError(f"unknown kind {str(kind)[:80]!r}")
    if depth == 0 and sum(1 for _ in leaves(node)) > MAX_LEAVES:
        raise UnsupportedError(f"more than {MAX_LEAVES} tensors")
    return node


def _check_fields(node: Node) -> None:
    """Check the names of a named tuple.  Raises UnsupportedError."""
    names = [node.get("name"), *(node["fields"] if isinstance(node["fields"], list) else [None])]
    usable = all(
        isinstance(each, str) and each.isidentifier() and not keyword.iskeyword(each)
        for each in names
    )
    fields = names[1:]
    hidden = any(str(each).startswith("_") for each in fields)
    count = len(node["items"])
    if (
        node["kind"] != "tuple"
        or not usable
        or hidden
        or not len(fields) == len({*fields}) == count
    ):
        raise UnsupportedError(f"not a named tuple's spec: {str(names)[:80]}")


def leaves(node: Node) -> Iterator[Node]:
    """Leaves: the nodes of values that are stored in memory, in order."""
    if node["kind"] == "tensor" or node["kind"] in _SCALARS:
        yield node
    for item in node.get("items", ()):
        yield from leaves(item)


def values(value: object) -> Iterator[Any]:
    """The values that are stored in memory, in the order of `leaves`."""
    if isinstance(value, Leaf):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from values(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from values(item)


def rebuild(node: Node, memory: Iterator[torch.Tensor]) -> Any:
    """The value of a node, with its leaves taken from `memory`: tensors as views,
    numbers by value.
    """
    kind = node["kind"]
    if kind == "tensor":
        return next(memory)
    if kind in _SCALARS:
        return next(memory).item()
    if kind in ("list", "tuple"):
        items = [rebuild(item, memory) for item in node["items"]]
        if "fields" in node:
            return _named_tuple(node["name"], tuple(node["fields"]))(*items)
        return items if kind == "list" else tuple(items)
    if kind == "dict":
        return {
            key: rebuild(item, memory)
            for key, item in zip(node["keys"], node["items"], strict=True)
        }
    if kind == "config":
        return pretrained.unpacked(node["value"])
    return DTYPES[node["value"]] if kind == "dtype" else node["value"]


def dtype_of(leaf: Node) -> torch.dtype:
    """Element type of a leaf in memory."""
    return DTYPES[leaf["dtype"]] if leaf["kind"] == "tensor" else _SCALARS[leaf["kind"]]


def nelements(leaf: Node) -> int:
    """Number of elements of a leaf."""
    count = 1
    for size in leaf.get("shape", ()):
        count *= size
    return count


COMPARED_AT_ONCE = 1 << 26
"""Elements compared at once: a comparison copies them."""


def same(left: object, right: object) -> bool:
    """Test whether two values have the same leaves (`values`): equal numbers, and tensors of equal
    elements.  NaN equals NaN and nothing else.
    """
    mine, theirs = list(values(left)), list(values(right))
    return len(mine) == len(theirs) and all(
        _equal(a, b) if isinstance(a, torch.Tensor) else a == b or (math.isnan(a) and math.isnan(b))
        for a, b in zip(mine, theirs, strict=True)
    )


def _equal(left: torch.Tensor, right: torch.Tensor) -> bool:
    if left.numel() <= COMPARED_AT_ONCE or left.shape != right.shape:
        return _equal_parts(left, right)
    pairs = zip(
        *(torch.split(each.flatten(), COMPARED_AT_ONCE) for each in (left, right)), strict=True
    )
    return all(_equal_parts(a, b) for a, b in pairs)


def _equal_parts(left: torch.Tensor, right: torch.Tensor) -> bool:
    left, right = computable(left), computable(right)
    if torch.equal(left, right):
        return True
    if not is_inexact(left.dtype) or left.shape != right.shape:
        return False
    return bool(((left == right) | (left.isnan() & right.isnan())).all())


def placed(value: Any, device: torch.device) -> Any:
    """The value with its tensors moved to the device."""
    return mapped(lambda x: x.to(device) if isinstance(x, torch.Tensor) else x, value)


def size_of(leaf: Node) -> int:
    """Bytes of a leaf."""
    return nelements(leaf) * dtype_of(leaf).itemsize


def memory_order(leaf: Node) -> list[int]:
    """The dimensions of a tensor in the order in which its memory holds them."""
    stride = leaf.get("stride")
    dimensions = range(len(leaf["shape"]))
    return sorted(dimensions, key=lambda i: -stride[i]) if stride else list(dimensions)


def in_memory_order(leaf: Node) -> Node:
    """The tensor that holds the same memory with its dimensions in the order of `memory_order`,
    without strides.
    """
    return {**leaf, "shape": [leaf["shape"][i] for i in memory_order(leaf)], "stride": None}


def widened(node: Node) -> Node:
    """The node with floating-point tensors in fp64 and complex ones in complex128;
    exact types are unchanged.
    """
    copy: Node = (
        dict(node, items=[widened(item) for item in node["items"]])
        if "items" in node
        else dict(node)
    )
    if copy["kind"] == "tensor":
        copy["stride"], dtype = None, DTYPES[copy["dtype"]]
        if is_inexact(dtype):
            copy["dtype"] = "complex128" if dtype.is_complex else "float64"
    return copy


@dataclass(frozen=True, kw_only=True)
class Region:
    """Part of the arena with all slots of one kind."""

    start: int
    slot_bytes: int
    slots: int
    offsets: tuple[int, ...]
    """Offset of each leaf within a slot."""
    leaves: tuple[Node, ...]

    @property
    def stop(self) -> int:
        """First byte after the region."""
        return self.start + self.slot_bytes * self.slots

    def views(self, arena: Memory, slot: int) -> list[torch.Tensor]:
        """Views of one slot's memory, one tensor per leaf."""
        start = self.start + slot * self.slot_bytes
        pairs = zip(self.offsets, self.leaves, strict=True)
        return [_view(arena, start + offset, leaf) for offset, leaf in pairs]


def _view(arena: Memory, offset: int, leaf: Node) -> torch.Tensor:
    dtype, count = dtype_of(leaf), nelements(leaf)
    if count == 0:
        return torch.empty(leaf["shape"], dtype=dtype, device=arena.whole.device)
    flat = arena.view(offset, dtype, count)
    if leaf.get("stride") is not None:
        return flat.as_strided(leaf["shape"], leaf["stride"])
    return flat.view(leaf.get("shape", ()))


def lay_out(start: int, slots: int, nodes: list[Node], unit: int = ALIGNMENT) -> Region:
    """A region that starts at byte `start` or the next multiple of `unit`, with `slots` slots for
    the leaves of `nodes`; each slot begins at a multiple of `unit` bytes.
    """
    found = tuple(leaf for node in nodes for leaf in leaves(node))
    offsets, at = [], 0
    for leaf in found:
        offsets.append(at)
        size = nelements(leaf) * dtype_of(leaf).itemsize
        at += -(-size // ALIGNMENT) * ALIGNMENT
    start, slot_bytes = -(-start // unit) * unit, -(-max(at, 1) // unit) * unit
    return Region(
        start=start, slot_bytes=slot_bytes, slots=slots, offsets=tuple(offsets), leaves=found
    )
