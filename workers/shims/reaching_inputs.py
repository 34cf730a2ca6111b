"""GENERATE: inputs that reach branches of the reference which the problem's own inputs do not reach.

Two kinds, in addition to those that only change a distribution (workers/protocol/input_variants.py):

* Reaching: operators that compare values with a number, or clamp them at one, are recorded while the reference runs.
  If all values are on one side of the limit, half of the rows of the inputs are scaled until some are on the other
  side.
* Redrawn: inputs that are the same in two draws are drawn anew (workers/shims/redrawn_inputs.py).

Planned in the reference's process, once for each problem.  This does not guard against limits that Python compares with
(`x.max().item() > 1e4`), limits that differ between channels, limits that only smaller values would reach, and bounded
inputs that must not grow (a probability)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from workers.protocol import input_domain, layout
from workers.protocol.dispatch_mode import Watching
from workers.protocol.input_variants import Variant
from workers.shims import redrawn_inputs

ATTEMPTS = 3
"""Factors that are tried, each four times as large as the one before."""

LARGEST_LIMIT = 1e6
"""Largest limit to be reached; larger ones stand for infinity, such as a mask's −1e9."""

LARGEST_FACTOR = 1e6

BEYOND = 8.0
"""Multiple of a limit that scaled values reach."""

LARGEST_BYTES = 64 << 20
"""Largest size of the inputs of an examined problem, of which several copies are made."""


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
    """Indices of input leaves that are drawn anew, because they are the same in every draw."""

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
    if redrawn_inputs.bytes_of(inputs) > LARGEST_BYTES:
        return Plan()
    others = draw()
    fixed = redrawn_inputs.standing(call, model, inputs, redrawn_inputs.fixed(inputs, others), device)
    return Plan(factor=_factor(call, model, inputs), fixed=fixed)


def applied(kind: Variant, how: Plan, inputs: list[Any]) -> list[Any]:
    """The inputs, changed by the plan `how`; draws from torch's seeded generator."""
    if kind == Variant.REDRAWN:
        return redrawn_inputs.redrawn(inputs, how.fixed)
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
    return redrawn_inputs.with_leaves(inputs, [_scaled_rows(x, factor) for x in layout.values(inputs)])


def _scaled_rows(x: Any, factor: float) -> Any:
    if not isinstance(x, torch.Tensor) or not x.is_floating_point() or x.dim() == 0 or not x.numel():
        return x
    changed = x.clone()
    rows = changed[::2]
    rows.mul_(factor)
    return changed if input_domain.keeps_structure(x, changed) else x
