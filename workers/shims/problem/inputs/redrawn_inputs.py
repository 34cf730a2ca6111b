"""Inputs that are the same in every draw, drawn anew.

* Sorted integers (offsets) stay sorted between the same ends, with their steps in another order, as
  a kernel may have the length of the longest row built in; equal steps, and numbers of segments if
  no other input is of integers, which may count them, are drawn anew.  Those without a gap
  (`arange`) are permuted, if the reference only looks something up by them or computes with them.
  Equal ones (the length of every sequence) are drawn between half of the value and the value, or
  keep their sum if that is the length of an input (sizes of groups); other integers are permuted
  along a dimension.  Segments described by two lists stay disjoint.
* Of a mask of equal values an eighth is inverted.
* Floating-point inputs of equal values (an initial state of zeros, a weight of ones) and
  numbers (a gate of zero, a temperature) are drawn around that value; the rows of one with two
  values (a unit matrix) are permuted, those of one with more are blended (blended_tables.py).

If the reference does not run on all of them together, those are kept on which it runs alone.  This
does not guard against other positions without a gap, and integers outside of tensors on which
shapes depend (python_integers.py).
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Collection
from typing import Any

import torch

from workers.protocol import layout
from workers.protocol.reference_work import ReferenceWork
from workers.protocol.roundoff import are_integers
from workers.shims.problem import memory_estimate
from workers.shims.problem.inputs import (
    blended_tables,
    input_domain,
    local_changes,
    python_integers,
    related_integers,
)
from workers.shims.problem.reference_session import call

REDRAWN_BYTES = 64 << 20
"""Size of inputs on a GPU up to which integers are redrawn whatever the reference does with them.
They are tried on the CPU first: there an index out of range raises, while on a GPU it ends the
process and every evaluation of the problem.
"""

HOST_FLOPS, HOST_BYTES = 20_000_000_000, 4 << 30
"""Work of a call up to which larger ones are tried, too: some seconds of one core."""

TURNED, TURNED_IN_PART = 1 / 8, 1 / 2
"""Shares of the elements of a mask of equal values, or of a part of it, that are inverted."""

ABOUT = 0.2
"""Standard deviation of the logarithm of the factor on equal values; zeros are replaced by
standard normal values.  A single number moves by a factor of at least exp(ABOUT), or from
zero to a number between OPENED.
"""

OPENED = (0.1, 0.9)

FAINT = 1e-3
"""Largest size of equal values that are replaced as zeros are: they hide all that they scale.
Python's numbers stay near their value: kernels have an epsilon built in."""

LARGEST_VALUE = 1e6
"""Largest number that is redrawn; larger ones stand for infinity, such as a mask's −1e9."""


def redrawn(inputs: list[Any], some: Collection[int]) -> list[Any]:
    """The inputs with the leaves at these indices drawn anew; draws from torch's
    seeded generator.
    """
    leaves = list(layout.values(inputs))
    sizes = _sizes(leaves)
    changed = [_redrawn(x, sizes) if at in some else x for at, x in enumerate(leaves)]
    return with_leaves(inputs, related_integers.related(leaves, changed))


def redrawn_in_part(inputs: list[Any], some: Collection[int]) -> list[Any]:
    """The same for a part of each of these leaves that has two elements or more: a few places of
    equal values, else a quarter.
    """
    leaves = list(layout.values(inputs))
    sizes = _sizes(leaves)
    changed = [
        _redrawn_in_part(x, sizes)
        if at in some and isinstance(x, torch.Tensor) and x.numel() > 1
        else x
        for at, x in enumerate(leaves)
    ]
    return with_leaves(inputs, related_integers.related(leaves, changed))


def _redrawn_in_part(x: torch.Tensor, sizes: Collection[int]) -> torch.Tensor:
    if _is_table(x):
        return blended_tables.blended(x, in_part=True)
    if _adds_up(x, sizes) and len(x) >= 2 * local_changes.PART:
        return local_changes.in_secluded_places(x, _traded, least=2)
    if x.dim() > 1 and _is_uniform(x):
        return local_changes.in_secluded_places(
            x, lambda part: _redrawn(part, (), turned=TURNED_IN_PART)
        )
    return local_changes.in_a_quarter(x, _changes(x, sizes))


def _changes(x: torch.Tensor, sizes: Collection[int]) -> local_changes.Change:
    """Change to a part of a tensor: values are drawn if all of the tensor are equal, else moved."""
    if _is_gapless(x) and not _repeats(x):
        return _resampled
    if _adds_up(x, sizes):
        return _traded
    if _is_uniform(x):
        return lambda part: _redrawn(part, ())
    return lambda part: part if _is_uniform(part) else _permuted(part)


def fixed(inputs: list[Any], others: list[Any], positions: Collection[int] = ()) -> frozenset[int]:
    """Indices of the leaves that are the same in two draws and could be others.  `positions`:
    those that may come in any order (IntegerUses.positions).
    """
    leaves = list(layout.values(inputs))
    pairs = enumerate(zip(leaves, layout.values(others), strict=True))
    sizes, integers = _sizes(leaves), sum(map(are_integers, leaves))
    return frozenset(
        at
        for at, (x, y) in pairs
        if _is_choice(x)
        and layout.same(x, y)
        and (
            _may_differ(x, sizes)
            or (at in positions and _is_gapless(x))
            or (integers == 1 and _repeats(x))
        )
    )


def _is_choice(x: Any) -> bool:
    if not isinstance(x, torch.Tensor):
        return isinstance(x, float)
    return not x.is_complex() and x.numel() > 0 and (not x.is_floating_point() or x.itemsize > 1)


def _may_differ(x: Any, sizes: Collection[int]) -> bool:
    """Test whether another value with the same structure exists.  `sizes`: those of all inputs."""
    if isinstance(x, float):
        return abs(x) < LARGEST_VALUE
    if x.is_floating_point():
        if _is_uniform(x):
            is_small = abs(float(x.flatten()[0])) < LARGEST_VALUE
            return is_small and (int(x.numel()) == 1 or not input_domain.are_normed(x))
        if _is_table(x):
            is_small = float(x.abs().amax()) < LARGEST_VALUE
            return is_small and blended_tables.may_be_blended(x)
        return int(x.dim()) > 1
    if x.dtype == torch.bool:
        return True
    if _is_uniform(x):
        return int(x.flatten()[0]) >= 0 and (int(x.sum()) not in sizes or _adds_up(x, sizes))
    return not _is_sorted(x) or _room(x) > 0


def _sizes(leaves: list[Any]) -> set[int]:
    return {size for x in leaves if isinstance(x, torch.Tensor) for size in x.shape}


def _adds_up(x: torch.Tensor, sizes: Collection[int]) -> bool:
    """Test for several equal integers above one with the length of an input as their sum: sizes of
    groups, which no change of a single one may leave behind.
    """
    if not are_integers(x) or x.dim() != 1 or len(x) < 2 or not _is_uniform(x):
        return False
    return int(x[0]) > 1 and int(x.sum()) in sizes


def _may_be_index(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and not x.is_floating_point()


def _is_table(x: torch.Tensor) -> bool:
    """Test for floating-point numbers of more than two values."""
    return x.is_floating_point() and not _has_two_values(x)


def _has_two_values(x: torch.Tensor) -> bool:
    least, most = x.amin(), x.amax()
    either: torch.Tensor = (x == least) | (x == most)
    return bool(either.all())


def _is_uniform(x: torch.Tensor) -> bool:
    return bool((x == x.flatten()[0]).all())


def _varying(x: torch.Tensor) -> int:
    """The first dimension along which not all slices are equal."""
    return next(dim for dim in range(x.dim()) if not bool((x == x.narrow(dim, 0, 1)).all()))


def _is_sorted(x: torch.Tensor) -> bool:
    return x.dim() == 1 and x.dtype != torch.bool and bool((x[1:] >= x[:-1]).all())


def _room(x: torch.Tensor) -> int:
    """Number of integers between the ends of a sorted tensor, beyond the number of
    its inner elements.
    """
    return max(0, int(x[-1]) - int(x[0]) - 1 - max(0, len(x) - 2)) if len(x) > 2 else 0


def _is_gapless(x: torch.Tensor) -> bool:
    """Test for sorted integers between whose ends there are no others."""
    return are_integers(x) and _is_sorted(x) and not _room(x) and not _is_uniform(x)


def _repeats(x: Any) -> bool:
    """Test for sorted integers of which some are equal, as the numbers of segments."""
    is_list = are_integers(x) and _is_sorted(x) and not _is_uniform(x)
    return is_list and bool((x[1:] == x[:-1]).any())


def _redrawn(x: Any, sizes: Collection[int], *, turned: float = TURNED) -> Any:
    if python_integers.is_integer(x):
        return python_integers.redrawn(x)
    if isinstance(x, float):
        return float(_moved_number(torch.tensor(x, dtype=torch.float64), faint=0.0))
    if _adds_up(x, sizes):
        return _traded(x)
    if _is_gapless(x) and not _repeats(x):
        return x[torch.randperm(len(x), device=x.device)]
    if x.is_floating_point() and _is_uniform(x):
        return _moved_number(x) if x.numel() == 1 else _about(x)
    if _is_table(x):
        return blended_tables.blended(x)
    if x.is_floating_point() or x.dtype == torch.bool or not _is_uniform(x):
        return _turned(x, turned) if _is_uniform(x) else _permuted(x)
    highest = int(x.flatten()[0])
    return _turned(x, turned) if highest < 2 else torch.randint_like(x, highest // 2, highest + 1)


def _resampled(x: torch.Tensor) -> torch.Tensor:
    return x[torch.randint(len(x), x.shape, device=x.device)]


def _traded(x: torch.Tensor) -> torch.Tensor:
    """Equal integers of which every second one gives a part of itself to the one before, and their
    sum stays.
    """
    pairs = len(x) // 2
    given = torch.zeros_like(x)
    given[: 2 * pairs : 2] = torch.randint_like(x[:pairs], 1, int(x[0]))
    return x + given - given.roll(1)


def _about(x: torch.Tensor) -> torch.Tensor:
    """Values around equal ones; around zero in place of faint ones, with their sign."""
    noise = torch.randn_like(x)
    if bool(x.flatten()[0].abs() > FAINT):
        return x * (ABOUT * noise).exp()
    return ABOUT * noise.abs().copysign(x) if bool(x.flatten()[0]) else noise


def _moved_number(x: torch.Tensor, faint: float = FAINT) -> torch.Tensor:
    """A number at some distance from this one; one between 0 and 1 stays there.  `faint`: size up
    to which it is replaced as zero is.
    """
    before = float(x)
    if abs(before) <= faint:
        return (OPENED[0] + (OPENED[1] - OPENED[0]) * torch.rand_like(x)).copysign(x)
    away = ABOUT * (1 + torch.randn_like(x).abs())
    falls = 0 < before <= 1 or bool(torch.rand(()) < 0.5)
    return x * (-away if falls else away).exp()


def _turned(x: torch.Tensor, share: float) -> torch.Tensor:
    """A mask of equal values, zeros or ones, with some of them inverted, one at least."""
    inverted = torch.rand(x.shape, device=x.device) < share
    inverted.view(-1)[torch.randint(x.numel(), (), device=x.device)] = True
    return x ^ inverted


def _permuted(x: torch.Tensor) -> torch.Tensor:
    """Rows, or steps of sorted integers, in another order; the integers anew if steps are equal."""
    if x.is_floating_point() or not _is_sorted(x):
        along = _varying(x)
        if x.shape[along] == 2:  # half of the permutations would change nothing
            return x.flip(along)
        return x.index_select(along, torch.randperm(x.shape[along], device=x.device))
    steps = x.diff()
    if int(steps.max()) > 1 and not _is_uniform(steps):
        moved = steps[torch.randperm(len(steps), device=x.device)]
        moved = steps.roll(1) if torch.equal(moved, steps) else moved
        return torch.cat((x[:1], x[:1] + moved.cumsum(0).to(x.dtype)))
    first, last, inside = int(x[0]), int(x[-1]), len(x) - 2
    if int(steps.min()) > 0 and last - first < 1 << 24:
        drawn = torch.randperm(last - first - 1, device=x.device)[:inside] + first + 1
    else:
        drawn = torch.randint(first, last + 1, (inside,), device=x.device)
    return torch.cat((x[:1], drawn.sort().values.to(x.dtype), x[-1:]))


def standing(
    model: Any,
    inputs: list[Any],
    some: frozenset[int],
    device: torch.device,
    work: ReferenceWork,
) -> frozenset[int]:
    """Indices, among these of leaves, that may be redrawn: all, if the reference runs on
    all of them redrawn, with an answer of the same shapes; else each on which it runs alone.
    Integers are tried on the CPU: there an index out of range raises.  `work`: that of a call.
    """
    leaves = list(layout.values(inputs))
    is_moved = device.type != "cpu" and any(_may_be_index(leaves[at]) for at in some)
    is_large = memory_estimate.tensor_bytes(inputs) > REDRAWN_BYTES
    if not some or (is_moved and is_large and not _is_light(work)):
        return frozenset()
    twin, leaves = on_host(model, inputs, device) if is_moved else (model, leaves)
    given = with_leaves(inputs, leaves)

    def shapes(values: list[Any]) -> list[Any]:
        answer = call(twin, copy.deepcopy(values))
        return [getattr(x, "shape", None) for x in layout.values(answer)]

    @functools.cache
    def usual_shapes() -> list[Any]:
        return shapes(given)

    def stands(these: frozenset[int]) -> bool:
        try:
            return shapes(redrawn(given, these)) == usual_shapes()
        except Exception:  # noqa: BLE001 (the problem's code may raise anything for inputs outside its domain)
            return False

    return (
        some
        if stands(some)
        else frozenset(at for at in some if len(some) > 1 and stands(frozenset({at})))
    )


def _is_light(work: ReferenceWork) -> bool:
    """Test whether the host does this work in some seconds; False for unknown work."""
    is_known = bool(work.rest_operators or work.products)
    return is_known and (work.flops or 0) <= HOST_FLOPS and work.rest_bytes <= HOST_BYTES


def on_host(model: Any, inputs: list[Any], device: torch.device) -> tuple[Any, list[Any]]:
    """The model and the leaves of its inputs, or copies of both in the host's memory."""
    leaves = list(layout.values(inputs))
    if device.type == "cpu":
        return model, leaves
    host = torch.device("cpu")
    twin = copy.deepcopy(model).to(host) if isinstance(model, torch.nn.Module) else model
    return twin, [x.to(host) if isinstance(x, torch.Tensor) else x for x in leaves]


def with_leaves(inputs: list[Any], leaves: list[Any]) -> list[Any]:
    """The structure of `inputs` with other leaves, in the order of layout.values."""
    remaining = iter(leaves)
    return list(
        layout.mapped(lambda x: next(remaining) if isinstance(x, layout.Leaf) else x, inputs)
    )
