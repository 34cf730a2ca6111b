"""GENERATE: inputs that reach branches of the reference which the problem's own inputs do not reach.

Two kinds, in addition to those that only change a distribution (workers/protocol/input_variants.py):

* Reaching: operators that compare values with a number, or clamp them at one, are recorded while the reference runs.
  If all values are on one side of the limit, half of the rows of the inputs are scaled until some are on the other
  side.
* Redrawn: inputs that are the same in two draws are drawn anew.  Sorted integers (offsets) stay sorted between the same
  ends; of a mask of equal values an eighth is inverted; other integers are permuted along a dimension.  Segments
  described by two lists stay disjoint.  Floating-point inputs of equal values (an initial state of zeros, a weight of
  ones) are drawn around that value.

Planned in the reference's process, once for each problem.  This does not guard against limits that Python compares with
(`x.max().item() > 1e4`), limits that differ between channels, limits that only smaller values would reach, and bounded
inputs that must not grow (a probability)."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from workers.protocol import input_domain, layout
from workers.protocol.dispatch_mode import Watching
from workers.protocol.input_variants import Variant

ATTEMPTS = 3
"""Factors that are tried, each four times as large as the one before."""

LARGEST_LIMIT = 1e6
"""Largest limit to be reached; larger ones stand for infinity, such as a mask's −1e9."""

LARGEST_FACTOR = 1e6

BEYOND = 8.0
"""Multiple of a limit that scaled values reach."""

LARGEST_BYTES = 64 << 20
"""Largest size of the inputs of an examined problem, of which several copies are made."""

REDRAWN_BYTES = 64 << 20
"""Largest size of inputs with integers that are redrawn on a GPU.  They are tried on the CPU first: there an index out
of range raises, while on a GPU it ends the process and every evaluation of the problem."""

TURNED = 1 / 8
"""Share of the elements of a mask of equal values that is inverted."""

ABOUT = 0.2
"""Standard deviation of the logarithm of the factor on equal values; zeros are replaced by standard normal values."""

_COMPARES = frozenset(
    {
        "aten::ge",
        "aten::gt",
        "aten::le",
        "aten::lt",
        "aten::fmax",
        "aten::fmin",
        "aten::fmod",
        "aten::hardshrink",
        "aten::maximum",
        "aten::minimum",
        "aten::remainder",
        "aten::softshrink",
        "aten::threshold",
    }
)
"""Operators with one limit, their second argument; for maximum and minimum, either argument."""

_CLAMPS = frozenset(
    {
        "aten::clamp",
        "aten::clamp_",
        "aten::clamp_min",
        "aten::clamp_max",
        "aten::clamp_min_",
        "aten::clamp_max_",
        "aten::hardtanh",
        "aten::hardtanh_",
    }
)
_DIFFERENCES = frozenset({"aten::huber_loss", "aten::smooth_l1_loss"})
"""Operators on the difference of two tensors, with a limit as the last argument."""

MOST_LIMITS = 4096
"""Most elements of a tensor of equal limits, such as one for each channel."""

Call = Callable[[Any, list[Any]], Any]


@dataclass(frozen=True)
class Plan:
    """Changes to be made to a problem's inputs."""

    factor: float | None = None
    """Factor by which half of the rows are scaled; None if all limits are reached or none can be."""
    fixed: frozenset[int] = field(default_factory=frozenset)
    """Indices of input leaves that are drawn anew: integers that are the same in every draw, and floating-point tensors
    of equal values."""

    @property
    def kinds(self) -> tuple[Variant, ...]:
        """Kinds of variants that exist for the problem."""
        wanted = ((Variant.REACHING, self.factor is not None), (Variant.REDRAWN, bool(self.fixed)))
        return tuple(kind for kind, there in wanted if there)


class Limits(Watching):  # type: ignore[no-untyped-call]
    """Dispatch mode that records limits of comparisons and clamps, with the factor by which values miss them."""

    def __init__(self) -> None:
        """Without limits at first."""
        super().__init__()
        self.missing: list[float] = []
        """Factors by which values of operators would have to be scaled to reach their limits."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name
        if name in _COMPARES or name in _CLAMPS:
            values, numbers = args[0], [*args[1:2], *(args[2:3] if name in _CLAMPS else []), *kwargs.values()]
            for limit in map(_number, numbers):
                self._look(values, limit)
            if len(args) > 1 and isinstance(args[1], torch.Tensor):
                self._look(args[1], _number(values))
        elif name in _DIFFERENCES:
            limit = [*args, *kwargs.values()][-1]
            self._look(args[0] - args[1], float(limit) if isinstance(limit, float) else 1.0)
        return func(*args, **kwargs)

    def _look(self, values: Any, limit: float | None) -> None:
        if (
            limit is None
            or not isinstance(values, torch.Tensor)
            or not values.is_floating_point()
            or not values.numel()
        ):
            return
        lowest, highest = (float(each) for each in torch.aminmax(values.detach().float()))
        if abs(limit) > LARGEST_LIMIT or not (highest > 0 or lowest < 0):
            return
        if limit > highest > 0:
            self.missing.append(limit / highest)
        elif limit < lowest < 0:
            self.missing.append(limit / lowest)


def _number(value: Any) -> float | None:
    """A limit: a number, or a small tensor of equal ones."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, torch.Tensor) and 0 < value.numel() <= MOST_LIMITS and value.dtype != torch.bool:
        first = value.detach().flatten()[0]
        return float(first) if not value.is_complex() and bool((value == first).all()) else None
    return None


def plan(call: Call, model: Any, draw: Callable[[], list[Any]], device: torch.device) -> Plan:
    """Plan of changes for a problem.  `call(model, inputs)`: makes a call; `draw`: returns new inputs each time.  The
    model is not changed."""
    inputs = draw()
    if _bytes(inputs) > LARGEST_BYTES:
        return Plan()
    others = draw()
    fixed = _fixed(inputs, others)
    if fixed and device.type != "cpu" and not _stands_redrawn(call, model, inputs, fixed):
        fixed = frozenset()
    return Plan(factor=_factor(call, model, inputs), fixed=fixed)


def applied(kind: Variant, how: Plan, inputs: list[Any]) -> list[Any]:
    """The inputs, changed by the plan `how`; draws from torch's seeded generator."""
    leaves = list(layout.values(inputs))
    if kind == Variant.REDRAWN:
        return _with(inputs, _related(leaves, [_redrawn(x) if at in how.fixed else x for at, x in enumerate(leaves)]))
    assert how.factor is not None
    return _scaled(inputs, how.factor)


def _factor(call: Call, model: Any, inputs: list[Any]) -> float | None:
    """The least tried factor with which the operators reach one more limit; None if there is none."""
    missing = _missing(call, model, inputs)
    if not missing:
        return None
    factor = BEYOND * max(missing)
    for _ in range(ATTEMPTS):
        if factor > LARGEST_FACTOR:
            return None
        scaled = _scaled(inputs, factor)
        if all(a is b for a, b in zip(layout.values(scaled), layout.values(inputs), strict=True)):
            return None  # no input may be scaled
        if len(_missing(call, model, scaled)) < len(missing):
            return factor
        factor *= 4
    return None


def _missing(call: Call, model: Any, inputs: list[Any]) -> list[float]:
    limits = Limits()
    with limits:
        call(model, copy.deepcopy(inputs))
    return limits.missing


def _scaled(inputs: list[Any], factor: float) -> list[Any]:
    """The inputs with every second row of each tensor scaled, from the first row on."""
    return _with(inputs, [_scaled_rows(x, factor) for x in layout.values(inputs)])


def _scaled_rows(x: Any, factor: float) -> Any:
    if not isinstance(x, torch.Tensor) or not x.is_floating_point() or x.dim() == 0 or not x.numel():
        return x
    changed = x.clone()
    rows = changed[::2]
    rows.mul_(factor)
    return changed if input_domain.keeps_structure(x, changed) else x


def _fixed(inputs: list[Any], others: list[Any]) -> frozenset[int]:
    pairs = enumerate(zip(layout.values(inputs), layout.values(others), strict=True))
    return frozenset(at for at, (x, y) in pairs if _is_choice(x) and layout.same([x], [y]) and _may_differ(x))


def _is_choice(x: Any) -> bool:
    if not isinstance(x, torch.Tensor) or x.is_complex() or x.numel() < 2:
        return False
    return not x.is_floating_point() or x.itemsize > 1


def _may_differ(x: torch.Tensor) -> bool:
    """Test whether another tensor with the same structure exists."""
    if x.is_floating_point():
        return _is_uniform(x) and abs(float(x.flatten()[0])) < LARGEST_LIMIT and not input_domain.are_normed(x)
    if _is_sorted(x):
        return _room(x) > 0
    return x.dtype == torch.bool or not _is_uniform(x)


def _is_uniform(x: torch.Tensor) -> bool:
    return bool((x == x.flatten()[0]).all())


def _varying(x: torch.Tensor) -> int:
    """The first dimension along which not all slices are equal."""
    return next(dim for dim in range(x.dim()) if not bool((x == x.narrow(dim, 0, 1)).all()))


def _is_sorted(x: torch.Tensor) -> bool:
    return x.dim() == 1 and x.dtype != torch.bool and bool((x[1:] >= x[:-1]).all())


def _room(x: torch.Tensor) -> int:
    """Number of integers between the ends of a sorted tensor, beyond the number of its inner elements."""
    return max(0, int(x[-1]) - int(x[0]) - 1 - max(0, len(x) - 2)) if len(x) > 2 else 0


def _redrawn(x: torch.Tensor) -> torch.Tensor:
    if x.is_floating_point():
        noise = torch.randn_like(x)
        return x * (ABOUT * noise).exp() if bool(x.flatten()[0]) else noise
    if x.dtype == torch.bool and _is_uniform(x):
        return x ^ (torch.rand(x.shape, device=x.device) < TURNED)
    if not _is_sorted(x):
        along = _varying(x)
        return x.index_select(along, torch.randperm(x.shape[along], device=x.device))
    first, last, inside = int(x[0]), int(x[-1]), len(x) - 2
    strict = bool((x[1:] > x[:-1]).all())
    if strict and last - first < 1 << 24:
        drawn = torch.randperm(last - first - 1, device=x.device)[:inside] + first + 1
    else:
        drawn = torch.randint(first, last + 1, (inside,), device=x.device)
    return torch.cat((x[:1], drawn.sort().values.to(x.dtype), x[-1:]))


def _related(before: list[Any], after: list[Any]) -> list[Any]:
    """The redrawn leaves.  Two integer tensors keep their original values if redrawing would break a relation between
    them: disjoint segments given by starts and lengths, or starts before ends."""
    lists = [at for at, x in enumerate(before) if _is_list(x)]
    for one, other in itertools.permutations(lists, 2):
        if len(before[one]) != len(before[other]) or (after[one] is before[one] and after[other] is before[other]):
            continue
        if any(holds(before[one], before[other]) and not holds(after[one], after[other]) for holds in RELATIONS):
            after = [
                old if at in (one, other) else new for at, (old, new) in enumerate(zip(before, after, strict=True))
            ]
    return after


def _is_list(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.dim() == 1 and len(x) > 1 and _is_integer(x)


def _is_integer(x: torch.Tensor) -> bool:
    return not x.is_floating_point() and not x.is_complex() and x.dtype != torch.bool


def _are_apart(starts: torch.Tensor, lengths: torch.Tensor) -> bool:
    return bool((lengths >= 0).all()) and bool((starts[:-1] + lengths[:-1] <= starts[1:]).all())


def _lie_before(starts: torch.Tensor, ends: torch.Tensor) -> bool:
    return bool((starts <= ends).all())


RELATIONS = (_are_apart, _lie_before)


def _stands_redrawn(call: Call, model: Any, inputs: list[Any], fixed: frozenset[int]) -> bool:
    """Test, on the CPU, whether the reference runs on redrawn integers."""
    if _bytes(inputs) > REDRAWN_BYTES:
        return False
    host = torch.device("cpu")
    leaves = [x.to(host) if isinstance(x, torch.Tensor) else x for x in layout.values(inputs)]
    redrawn = _related(leaves, [_redrawn(x) if at in fixed else x for at, x in enumerate(leaves)])
    try:
        twin = copy.deepcopy(model).to(host) if isinstance(model, torch.nn.Module) else model
        call(twin, _with(inputs, redrawn))
    except Exception:  # noqa: BLE001 (the problem's code may raise anything for inputs outside its domain)
        return False
    return True


def _bytes(inputs: list[Any]) -> int:
    return sum(x.nbytes for x in layout.values(inputs) if isinstance(x, torch.Tensor))


def _with(inputs: list[Any], leaves: list[Any]) -> list[Any]:
    """The structure of `inputs` with other leaves, in the order of layout.values."""
    remaining = iter(leaves)

    def rebuilt(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: rebuilt(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(map(rebuilt, value))
        return next(remaining) if isinstance(value, torch.Tensor | bool | int | float) else value

    return list(map(rebuilt, inputs))
