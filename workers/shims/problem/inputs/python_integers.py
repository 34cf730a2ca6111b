"""Whole numbers that `get_inputs` gives as such, drawn anew where they are values, not sizes.

A shift, a position to begin at, a step of an optimizer or a number of tokens may be any number; a
dimension, a size or a number of heads may not.  A number counts as a value if the reference runs
the same operators on the same shapes with another one, and gives it to them only as a factor,
a summand, a limit, a shift or a place.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

import torch

from workers.backends.support.dispatch_mode import Watching
from workers.protocol import layout
from workers.shims.problem.reference_session import call

LARGEST = 1 << 31
"""Size above which a number stands for infinity or is a seed."""

_VALUES = frozenset({"diagonal", "end", "index", "shifts", "start", "storage_offset"})
"""Names of the arguments that take a place or a shift, by operators' schemas."""

Seen = tuple[str, tuple[tuple[Any, ...], ...], tuple[Any, ...]]
"""Name of an operator, its arguments as (value, whether it may vary), and the shapes of its
results.
"""


def is_integer(x: Any) -> bool:
    """Test for a whole number that is no truth value."""
    return type(x) is int and abs(x) < LARGEST


def redrawn(x: int) -> int:
    """Another number of the same sign, from half of this one on; beside zero and ones, the next."""
    low, high = _ends(x)
    return int(torch.randint(low, high + 1, ()))


def _ends(x: int) -> tuple[int, int]:
    """The least and the largest number in place of this one."""
    if abs(x) < 2:
        return (x + 1, x + 1) if x >= 0 else (x - 1, x - 1)
    return (x // 2, x - 1) if x > 0 else (x + 1, -(-x // 2))


def fixed(model: Any, inputs: list[Any], others: list[Any]) -> frozenset[int]:
    """Indices of the numbers that are the same in two draws and are values."""
    pairs = enumerate(zip(layout.values(inputs), layout.values(others), strict=True))
    some = [at for at, (x, y) in pairs if is_integer(x) and x == y]
    if not some:
        return frozenset()
    usual = _seen(model, inputs, {})
    return frozenset(at for at in some if _is_value(model, inputs, at, usual))


def _is_value(model: Any, inputs: list[Any], at: int, usual: list[Seen]) -> bool:
    for end in _ends(list(layout.values(inputs))[at]):
        try:
            here = _seen(model, inputs, {at: end})
        except Exception:  # noqa: BLE001 (the problem's code may raise anything for such a number)
            return False
        if usual == here or not all(map(_may_differ, *zip(*zip_longest(usual, here), strict=True))):
            return False
    return True


def _seen(model: Any, inputs: list[Any], other: dict[int, int]) -> list[Seen]:
    """Operators of a call with other numbers at these places."""
    leaves = [other.get(at, x) for at, x in enumerate(layout.values(inputs))]
    remaining = iter(leaves)
    given = layout.mapped(lambda x: next(remaining) if isinstance(x, layout.Leaf) else x, inputs)
    with _Arguments() as arguments:
        call(model, copy.deepcopy(given))
    return arguments.seen


def _may_differ(one: Seen | None, other: Seen | None) -> bool:
    """Test for the same operator on the same shapes, with the same numbers but for values."""
    if one is None or other is None or one[0] != other[0] or one[2] != other[2]:
        return False
    pairs = zip_longest(one[1], other[1], fillvalue=(None, False))
    return all(mine == theirs or mine[1] == theirs[1] is True for mine, theirs in pairs)


class _Arguments(Watching):  # type: ignore[no-untyped-call]
    """Dispatch mode that records the operators of a call."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Seen] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        self.seen.append(
            (
                str(func),
                tuple(_arguments(func, args, kwargs or {})),
                tuple(map(_shape, layout.values(found))),
            )
        )
        return found


def _arguments(func: Any, args: Any, kwargs: Any) -> Iterator[tuple[Any, ...]]:
    """All arguments of an operator's schema; those that are left out have their defaults."""
    for argument, given in zip_longest(func._schema.arguments, args):
        otherwise = kwargs.get(argument.name, argument.default_value)
        yield _argument(argument, otherwise if given is None else given)


def _argument(argument: Any, given: Any) -> tuple[Any, ...]:
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    takes_numbers = str(argument.type) in ("Tensor", "number", "float", "Optional[number]")
    may_vary = argument.name in _VALUES or (is_number and takes_numbers)
    return tuple(map(_shape, layout.values([given]))), may_vary


def _shape(x: Any) -> Any:
    return (x.shape, x.dtype) if isinstance(x, torch.Tensor) else x
