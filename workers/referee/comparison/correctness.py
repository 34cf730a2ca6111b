"""Comparison of outputs with the fp64 reference, relative to the reference's error
in its own precision.

Another order of summation passes, a narrower type does not: the limits are multiples of that error
(`CLOSE`), with a floor for cases in which it happens to be tiny.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch

from app.domain.output_checks import Element, OutputCheck
from workers.protocol.problem_spec import FEW_ELEMENTS
from workers.protocol.roundoff import FLOORS, computable
from workers.referee.comparison import kept_inputs, largest_excess, wrong_slices
from workers.referee.comparison.output_errors import error_rows, finite, parts
from workers.referee.comparison.unwritten import untouched

CLOSE = (4.0, 8.0)
CLOSE_HALF = (3.0, 6.0)
CLOSE_EIGHT = (1.25, 2.0)
"""Limits in L2 and for the largest error: multiples of the reference's error in its own
precision; lower in fp16, because bf16 errs eight times as much, and in eight bits, because that
error is the rounding of the output, which every right answer shares: four times as much is cut
off, or half of the terms of a mean.
"""

BEYOND_EAGER = 0.05
"""Limit beyond the reference's own error, in relative L2.  If the reference's own precision
sometimes decides otherwise (the nearest code of a book), four times its error would permit
three invented rows of a hundred.
"""

NOISE = 0.5
"""Error of the reference, in relative L2, from which on its answer is rounding noise (the mean of a
normalised tensor): that of other kernels is as large, and another.
"""

FAINT = 0.1
"""Least size of an answer relative to the usual size, if several calls are compared: an answer of
a few numbers may cancel to almost nothing in one call of hundreds, and every rounding error is
large relative to it.  Without this, one call in 150 of the mean of a million normal values was
wrong, for any implementation.
"""


GROSS_L2 = 2e-2
GROSS_MAX = 1e6
"""See `Rule.gross`."""


RECOGNISABLE = 64
"""Elements from which on an answer of integers or truth values is unlike all others."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Rule that decides whether an output is right."""

    gross: bool = False
    """Only plainly wrong outputs are refused: on unusual inputs kernels round differently at the
    edges, and the largest error over all elements proves little.
    """
    most: float = math.inf
    """Limit of `gross`, in multiples of the type's floor: inputs that are unusual only in that
    they differ from those of every other draw, or only in a few rows, are rounded as usual.
    """
    tolerance: tuple[float, float] | None = None
    """(rtol, atol) in place of the referee's limits: every |x − R| ≤ atol + rtol·|R|."""
    spread: tuple[tuple[float, float], ...] = ()
    """Least error assumed for the reference, per output, if its order of summation varies or its
    convolutions may be in TF32 (problem_spec.ProblemSpec.spread).
    """
    usual_norms: tuple[float, ...] = ()
    """Least norm of an answer that errors are relative to, per output, on the problem's own inputs
    (problem_spec.ProblemSpec.usual_norms).
    """
    least_norms: tuple[float, ...] = ()
    """The same on unusual inputs (usual_answers.least_norm)."""


DEFAULT_RULE = Rule()


def closeness(dtype: torch.dtype) -> tuple[float, float]:
    """Limits for an output of this type, in multiples of the reference's error:
    relative L2, and largest error.
    """
    if dtype.is_floating_point and dtype.itemsize == 1:
        return CLOSE_EIGHT
    return CLOSE_HALF if dtype == torch.float16 else CLOSE


def _beyond_eager(closeness_l2: float, base_l2: float) -> float:
    """Limit for the relative L2 error where the reference errs by `base_l2`."""
    relative = closeness_l2 * base_l2
    return relative if base_l2 >= NOISE else min(relative, base_l2 + BEYOND_EAGER)


@dataclass(frozen=True, kw_only=True)
class SecondLook:
    """Findings of the reference's process on one output of a wrong call
    (workers/shims/problem/answers/equivalent_answers.py).
    """

    l2: float
    largest: float
    """Errors caused by a rounding in every operation: relative L2, and largest error over rms."""
    ties: int
    """Elements that point at another place of an equal value."""
    close: int
    """Elements that rounding decides."""

    @classmethod
    def checked(cls, fields: dict[str, Any]) -> SecondLook:
        """Parse JSON written by the reference's process.  Raises ValueError, and the
        errors of JSON of another form.
        """
        l2, largest = float(fields["l2"]), float(fields["largest"])
        if not (0 <= l2 < math.inf and 0 <= largest < math.inf):
            raise ValueError(f"not an error: {str(fields)[:80]}")
        return cls(l2=l2, largest=largest, ties=int(fields["ties"]), close=int(fields["close"]))


class CallErrors(NamedTuple):
    """Errors of one call's output, relative to the expected one (output_errors.error_rows)."""

    l2: float
    """Relative L2 error."""
    largest: float
    """Largest error over the root mean square."""
    bad: float
    """Positions at which finiteness disagrees."""
    base_l2: float
    base_largest: float
    base_bad: float
    """The same of the reference in its own precision."""
    beyond: float = 0.0
    """Elements beyond the rule's tolerance, if it has one."""


@dataclass(frozen=True, kw_only=True)
class ComparedOutput:
    """One output of several calls, compared."""

    index: int
    shape: tuple[int, ...]
    rule: Rule
    got: torch.Tensor
    poison: torch.Tensor
    errors: list[CallErrors]
    """Per call."""
    second_looks: Mapping[int, SecondLook] = field(default_factory=dict)
    """Findings by call, for calls with a second look."""
    worst: Mapping[int, Element] = field(default_factory=dict)
    """By wrong call, the element that exceeds its limit most."""
    slices: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """By call, dimension and index of a wrong slice."""
    kept: Mapping[int, int] = field(default_factory=dict)
    """By call, index of an input with a change that is left out (kept_inputs.py)."""

    @functools.cached_property
    def ok(self) -> list[bool]:
        """Verdicts per call: whether the output is right."""
        return [
            self._is_right(errors) and call not in self.slices and call not in self.kept
            for call, errors in enumerate(self.errors)
        ]

    @functools.cached_property
    def _usual(self) -> tuple[float, float]:
        """Errors of the reference that an output of a few elements has at least: the medians over
        these calls.  In one call of some thousand its error is nearly zero by chance.
        """
        if self.got.shape[1] >= FEW_ELEMENTS:
            return 0.0, 0.0
        return (
            statistics.median(finite(each.base_l2) for each in self.errors),
            statistics.median(finite(each.base_largest) for each in self.errors),
        )

    def limits(self, call: int) -> tuple[float, float]:
        """Limits for a call's relative L2 error, and for its largest error over rms."""
        return self._limits(self.errors[call])

    def _limits(self, errors: CallErrors) -> tuple[float, float]:
        gross_l2, gross_max = (GROSS_L2, GROSS_MAX) if self.rule.gross else (0.0, 0.0)
        floor_l2, floor_max = FLOORS.get(self.got.dtype, (0.0, 0.0))
        gross_l2 = min(gross_l2, self.rule.most * floor_l2) if floor_l2 else gross_l2
        close_l2, close_max = closeness(self.got.dtype)
        spread_l2, spread_max = self.rule.spread[self.index] if self.rule.spread else (0.0, 0.0)
        usual_l2, usual_max = self._usual
        base_l2 = max(finite(errors.base_l2), spread_l2, usual_l2)
        base_largest = max(finite(errors.base_largest), spread_max, usual_max)
        return (
            max(floor_l2, _beyond_eager(close_l2, base_l2), gross_l2),
            max(floor_max, close_max * base_largest, gross_max),
        )

    def _is_right(self, errors: CallErrors) -> bool:
        if errors.bad:
            return False
        if self.rule.tolerance is not None:
            return not errors.beyond
        limit_l2, limit_max = self._limits(errors)
        return errors.l2 <= limit_l2 and errors.largest <= limit_max

    def by_slices(
        self, most: int, expected: torch.Tensor, baseline: torch.Tensor
    ) -> ComparedOutput:
        """The output with the slices of the first calls examined, as far as they are right as a
        whole.  `expected`, `baseline`: (calls, elements).
        """
        looks = {
            call: wrong_slices.first(
                self.got[call], expected[call].reshape(-1), baseline[call].reshape(-1), self.shape
            )
            for call, right in enumerate(self.ok[:most])
            if right
        }
        return replace(
            self, slices={call: index for call, index in looks.items() if index is not None}
        )

    def by_changes(
        self,
        inputs: Sequence[Sequence[tuple[int, torch.Tensor]]],
        expected: torch.Tensor,
        baseline: torch.Tensor,
    ) -> ComparedOutput:
        """The output with its changes to inputs examined, for the first calls as far as they are
        right as a whole.  `inputs`: per call, inputs of its type and shape.
        """
        looks = {
            call: kept_inputs.first(
                self.got[call], expected[call].reshape(-1), baseline[call].reshape(-1), given
            )
            for call, (given, right) in enumerate(zip(inputs, self.ok, strict=False))
            if right
        }
        return replace(self, kept={call: at for call, at in looks.items() if at is not None})

    def reviewed(
        self, call: int, expected: torch.Tensor, nearest: torch.Tensor, leaf: SecondLook
    ) -> ComparedOutput:
        """The output with one call compared again: with its delivered values where those
        are right all the same, and with the effect of a rounding in every operation as
        the least error of the reference.

        `expected`, `nearest`: (1, elements), the latter in the output's type, equal to the
        delivered value where that is right.  `expected` is overwritten with the accepted values:
        another copy of an output may not fit.
        """
        got = self.got[call : call + 1]
        accepted = expected.view(got.shape)
        for mine, near, right in parts(got, nearest.view(got.shape), accepted):
            kept = (near == mine) | (computable(near).isnan() & computable(mine).isnan())
            right.copy_(torch.where(kept, mine.to(right.dtype), right))
        [again] = compare(got, accepted, got, self.poison, self.index, self.shape, self.rule).errors
        again = again._replace(
            base_l2=max(self.errors[call].base_l2, leaf.l2),
            base_largest=max(self.errors[call].base_largest, leaf.largest),
        )
        errors = [*self.errors[:call], again, *self.errors[call + 1 :]]
        return replace(self, errors=errors, second_looks={**self.second_looks, call: leaf})

    def located(self, calls: Iterable[int], expected: torch.Tensor) -> ComparedOutput:
        """The output with the element that exceeds its limit most, for each of the
        calls that is wrong.

        `expected`: (calls, elements).
        """
        found = {
            call: largest_excess.element(
                self.got[call], expected[call].reshape(-1), self.shape, self.rule.tolerance
            )
            for call in calls
            if not self.ok[call]
        }
        return replace(
            self, worst={call: element for call, element in found.items() if element is not None}
        )

    def rel_l2(self, call: int) -> float | None:
        """Relative L2 error of a call; None if it is not finite."""
        errors = self.errors[call]
        return None if errors.bad else _number(errors.l2)

    def _differing(self, call: int) -> int | None:
        """Elements that differ, of an exact output."""
        inexact = self.got.is_floating_point() or self.got.is_complex()
        return None if inexact else round(self.errors[call].l2 * self.got.shape[1])

    def _second_look_counts(self, call: int) -> dict[str, int]:
        leaf = self.second_looks.get(call)
        return {} if leaf is None else {"ties": leaf.ties, "close": leaf.close}

    def check(self, call: int) -> OutputCheck:
        """The check of a call's output."""
        errors, ok = self.errors[call], self.ok[call]
        limit_l2, limit_max = self._limits(errors)
        return OutputCheck(
            index=self.index,
            dtype=str(self.got.dtype).removeprefix("torch."),
            shape=self.shape,
            ok=ok,
            rel_l2=self.rel_l2(call),
            rel_l2_limit=limit_l2,
            max_norm=None if errors.bad else _number(errors.largest),
            max_norm_limit=limit_max,
            nonfinite_mismatches=int(errors.bad),
            unwritten=0 if ok else int(untouched(self.got[call], self.poison).sum()),
            stale_call=None,
            beyond=None if self.rule.tolerance is None else int(errors.beyond),
            differing=self._differing(call),
            worst=None if ok else self.worst.get(call),
            wrong_slice=self.slices.get(call),
            kept_input=self.kept.get(call),
            **self._second_look_counts(call),
        )


def compare(
    got: torch.Tensor,
    expected: torch.Tensor,
    baseline: torch.Tensor,
    poison: torch.Tensor,
    index: int,
    tensor_shape: tuple[int, ...],
    rule: Rule = DEFAULT_RULE,
    *,
    closely: bool = True,
) -> ComparedOutput:
    """Compare one output of several calls.

    `got`, `baseline`: (calls, elements) in the output's type; `expected`: the same in fp64, or
    exact; `poison`: content of the slot before, repeated; `closely`: count the errors of an output
    that is not finite, in place of noting that there are some.
    """
    shape = (got.shape[0], -1)
    got, expected, baseline = got.reshape(shape), expected.reshape(shape), baseline.reshape(shape)
    beyond = [] if rule.tolerance is None else [_beyond(got, expected, *rule.tolerance)]
    norms = rule.least_norms if rule.gross else rule.usual_norms
    rows = error_rows(
        (got, expected),
        (baseline, expected),
        more=beyond,
        closely=closely,
        faint=0 if rule.gross else FAINT,
        least=norms[index] if norms else 0.0,
    )
    errors = [CallErrors(*row) for row in rows]
    return ComparedOutput(
        index=index, shape=tensor_shape, rule=rule, got=got, poison=poison, errors=errors
    )


def wrong_calls(compared: Sequence[ComparedOutput]) -> list[int]:
    """Calls with a wrong output."""
    right = zip(*(output.ok for output in compared), strict=True)
    return [call for call, outputs_ok in enumerate(right) if not all(outputs_ok)]


def located(
    compared: list[ComparedOutput], expected: Sequence[torch.Tensor], most: int
) -> list[ComparedOutput]:
    """The outputs with the worst elements of wrong calls, of the first `most` of these."""
    calls = wrong_calls(compared)
    if not calls:
        return compared
    return [
        output.located(calls[:most], exact)
        for output, exact in zip(compared, expected, strict=True)
    ]


def _beyond(got: torch.Tensor, expected: torch.Tensor, rtol: float, atol: float) -> torch.Tensor:
    """Per call, elements that differ by more than atol + rtol·|R|; elements that are
    not finite are counted elsewhere.
    """
    wide = torch.complex128 if got.is_complex() else torch.float64
    counts = []
    for part in parts(got, expected):
        x, r = (each.to(wide) for each in part)
        apart = (x - r).abs() > atol + rtol * r.abs()
        counts.append((apart & torch.isfinite(x) & torch.isfinite(r)).sum(dim=1))
    return torch.stack(counts).sum(dim=0)


def _number(value: float) -> float | None:
    """The value, or None if JSON cannot represent it."""
    return value if math.isfinite(value) else None
