"""Rounding errors of a reference: their size, and a test whether two
answers differ by no more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from workers.protocol import layout
from workers.protocol.roundoff import FLOORS, computable, errors, is_inexact, unit
from workers.shims.problem.answers.true_answer import NominalTypes, Widened, is_code, nominal

MOVES = (
    *("clone", "copy", "cat", "stack", "gather", "index", "select", "slice", "where", "masked"),
    *("fill", "zeros", "ones", "empty", "full", "arange", "expand", "repeat", "roll", "flip"),
    *("sort", "topk", "max", "min", "relu", "clamp", "pad", "scatter", "embedding", "neg"),
    *("abs", "round", "floor", "ceil", "sign", "rand", "detach", "lift", "tril", "triu"),
    *("constant", "scalar", "unfold", "one_hot", "eye", "dropout", "trunc"),
)
"""Prefixes of the names of operations that do not round."""

SUMS = (
    *("mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot", "linear", "sum"),
    *("mean", "cumsum", "nansum", "conv", "cudnn", "mkldnn", "thnn", "var", "std", "norm"),
    *("linalg", "native", "prod", "cumprod", "logsumexp", "softmax", "log_softmax", "avg_pool"),
    *("adaptive", "upsample", "cdist", "lstm", "gru", "rnn", "scaled", "trace", "einsum"),
    *("fft", "grid", "addr", "logcumsumexp", "renorm", "cholesky", "triangular", "lu"),
)
"""Prefixes of the names of operations that sum many terms.  If terms cancel, the error of a sum is
as large as that of its terms, however small the sum.
"""

QUANTISES = ("fake_quantize", "quantize")
"""Prefixes of the names of operations that round to codes: an error of their
arguments decides between two codes.
"""

DECIDES = (
    *("round", "floor", "ceil", "trunc", "frac", "fmod", "remainder", "sign", "gt", "ge", "lt"),
    *("le", "bucketize", "searchsorted", "histc"),
)
"""Prefixes of the names of operations that decide between results.  Another formula for
their argument, such as a shift before it is rounded down, errs by a rounding of the largest
values, however small the argument.
"""

QUOTIENTS = ("div", "reciprocal")
"""Prefixes of the names of divisions.  A quotient is exact by chance: a kernel that multiplies by
the reciprocal rounds it.
"""

CUMULATES = ("cumsum", "logcumsumexp", "cumprod")
"""Prefixes of the names of operations with results that err with their length: each order of
blocks adds up other partial results.
"""

SELECTIONS = (
    "topk",
    "sort",
    "argmax",
    "argmin",
    "max",
    "min",
    "kthvalue",
    "median",
    "nanmedian",
    "cummax",
    "cummin",
)
"""Operations that return indices into their first argument."""

UNTIED, UNTIED_AT_LEAST = 2.0**-45, 1e-300
"""Relative and least change of numbers that are equal, for an operation that selects one of them:
less than the distance of two numbers of single precision.
"""

SHIFT = 4.0
"""Error of an argument that is decided on, in roundings of a number of the tensor's size."""

TERMS = 2.0
"""Error that is added to a term, in roundings."""

Call = Callable[[], Any]
"""Function that makes a call on the same inputs each time and returns a private copy
of the answer.
"""

DIFFER = 1e-3
"""Share of an exact output's elements (integers, booleans) in which two calls of a
reference may differ.
"""

REPEATS = 4
"""Further answers from which the spread is measured."""


class Perturbed(Widened):  # type: ignore[no-untyped-call]
    """Dispatch mode that adds errors of the size of a rounding to the type that the problem's code
    asks for, unless an operation's result is exact in that type.  An operation that quantises has
    them in its arguments, too, and a cast to floats of one byte only there; one that decides has
    errors of single precision there, relative to the whole tensor, except in whole numbers.
    """

    def __init__(
        self, generator: torch.Generator, scale: float = 1.0, to: torch.dtype = torch.float64
    ) -> None:
        """`generator`: random generator on the device; `scale`: size of the errors, in roundings;
        `to`: type to compute in.  In float32 no result of float32 is known to be exact.
        """
        super().__init__(to)
        self._generator = generator
        self._scale = scale

    def compute(self, func: Any, called: torch.dtype, args: Any, kwargs: Any) -> Any:
        """The operation's result with errors: the terms of a sum are perturbed beforehand, and
        results that are not exact afterwards.
        """
        name, by = operation(func), self._scale * unit(called)
        if _is_coded(name, called, args):
            moved = layout.mapped(self._moved_by_its_own, (args, kwargs))
            return super().compute(func, called, *moved)
        if name.startswith(SUMS) and not func._schema.is_mutable:
            # Narrower types are added up in fp32.
            of_terms = TERMS * min(by, self._scale * unit(torch.float32))
            args, kwargs = layout.mapped(lambda each: self._moved(each, of_terms), (args, kwargs))
        elif name.startswith(QUANTISES):
            args, kwargs = layout.mapped(lambda each: self._moved(each, by), (args, kwargs))
        elif _decides(name, kwargs):
            args, kwargs = layout.mapped(self._shifted, (args, kwargs))
        result = super().compute(func, called, args, kwargs)
        if name in SELECTIONS and not has_order(kwargs):
            untied = super().compute(func, called, (self._untied(args[0]), *args[1:]), kwargs)
            return _with_indices(result, untied)
        if name.startswith(CUMULATES):
            by *= max(1.0, math.sqrt(args[0].shape[args[1]] if args[0].dim() else 1))
        if func.is_view or name.startswith(MOVES):
            return result
        if func._schema.is_mutable:
            self._perturb(result, called, by)
            return result
        divisor = args[-1] if name.startswith(QUOTIENTS) else 1.0
        return layout.mapped(lambda each: self._rounded(each, called, by, divisor), result)

    def _rounded(self, value: Any, called: torch.dtype, by: float, divisor: Any = 1.0) -> Any:
        if not isinstance(value, torch.Tensor) or not is_inexact(value.dtype):
            return value
        found = self._moved(value, by)
        if value.dtype != called:
            exact = value.to(called).to(value.dtype) == value
            known = _is_power_of_two(divisor) | ~torch.isfinite(value)
            found = torch.where(exact & known, value, found)
        found._nominal = called
        return found

    def _perturb(self, value: Any, called: torch.dtype, by: float) -> None:
        if isinstance(value, torch.Tensor) and is_inexact(value.dtype):
            value.copy_(self._rounded(value, called, by))

    def _moved_by_its_own(self, value: Any) -> Any:
        """An argument with errors of the size of a rounding to its own type; codes as they are."""
        if not isinstance(value, torch.Tensor) or is_code(nominal(value)):
            return value
        return self._moved(value, self._scale * unit(nominal(value)))

    def with_rounded_codes(self, value: Any) -> Any:
        """An answer with errors of the size of a rounding in its floats of one byte."""
        if not isinstance(value, torch.Tensor) or not is_code(nominal(value)):
            return value
        return self._moved(value, self._scale * unit(nominal(value)))

    def _moved(self, value: Any, by: float) -> Any:
        if not isinstance(value, torch.Tensor) or not is_inexact(value.dtype):
            return value
        real = value.real.dtype if value.is_complex() else value.dtype
        noise = torch.rand(value.shape, generator=self._generator, dtype=real, device=value.device)
        found = torch.addcmul(value, value, noise.mul_(2).sub_(1), value=by)
        found._nominal = nominal(value)  # type: ignore[attr-defined]
        return found

    def _untied(self, value: torch.Tensor) -> torch.Tensor:
        """Numbers of which none are equal, in the order of those that differ."""
        if not value.is_floating_point():
            return value
        noise = torch.rand(
            value.shape, generator=self._generator, dtype=value.dtype, device=value.device
        )
        by = (UNTIED * value.abs()).clamp_(min=UNTIED_AT_LEAST)
        return torch.where(value.isfinite(), value + noise.mul_(by), value)

    def _shifted(self, value: Any) -> Any:
        if (
            not isinstance(value, torch.Tensor)
            or not value.is_floating_point()
            or not value.numel()
        ):
            return value
        size = value.nan_to_num(0.0, 0.0, 0.0).square().mean().sqrt()
        noise = torch.rand(
            value.shape, generator=self._generator, dtype=value.dtype, device=value.device
        )
        by = SHIFT * self._scale * unit(torch.float32) * size
        found: Any = torch.where(value == value.round(), value, value + by * noise.mul_(2).sub_(1))
        found._nominal = nominal(value)
        return found


def _with_indices(result: Any, untied: Any) -> Any:
    """The result of an operation, with the indices that it has for untied numbers."""
    if isinstance(result, torch.Tensor):
        return untied if result.dtype == torch.int64 else result
    return type(result)([result[0], untied[1]])


def _decides(name: str, kwargs: Any) -> bool:
    asked = kwargs.get("dtype")
    to_integers = name == "to_copy" and isinstance(asked, torch.dtype) and not is_inexact(asked)
    return to_integers or name.startswith(DECIDES)


def _is_coded(name: str, called: torch.dtype, args: Any) -> bool:
    """Test for a cast to floats of one byte; `called`: type of the result."""
    return is_code(called) if name == "to_copy" else name == "copy_" and is_code(nominal(args[0]))


def _is_power_of_two(number: Any) -> Any:
    """Test whether numbers are powers of two, by which a division is exact."""
    if not isinstance(number, torch.Tensor):
        return math.frexp(abs(number))[0] == 0.5
    return torch.frexp(number.abs().double()).mantissa == 0.5


def has_order(named: Mapping[str, Any]) -> bool:
    """Test whether the order of equal values decides which of them a selection chooses, as it does
    in a stable sort.  `named`: its further arguments.  The first maximum, which PyTorch documents
    for `argmax`, is no such promise: blocks of a kernel find another one of equal values.
    """
    return bool(named.get("stable"))


def operation(func: Any) -> str:
    """Name of the operation that an operator carries out: `softmax` for `aten::_softmax`."""
    name: str = func._schema.name.partition("::")[2]
    return name.lstrip("_")


def perturbed(
    model: Any, inputs: list[Any], seed: int, scale: float, to: torch.dtype = torch.float64
) -> Any:
    """A twin's answer with rounding errors drawn under `seed`, `scale` times as large as those of
    the reference.  `to`: type that the twin computes in.
    """
    device = next(
        (each.device for each in layout.values(inputs) if isinstance(each, torch.Tensor)),
        torch.device("cpu"),
    )
    generator = torch.Generator(device).manual_seed(seed)
    errors_of_roundings = Perturbed(generator, scale, to)
    with torch.no_grad():
        with NominalTypes(), errors_of_roundings:
            answer = model(*inputs)
        return layout.mapped(errors_of_roundings.with_rounded_codes, answer)


def differs_by_rounding(first: Any, again: Any) -> bool:
    """Test whether two answers to the same inputs differ by no more than the order
    of sums explains.
    """
    pairs = list(zip(layout.values(first), layout.values(again), strict=True))
    return all(layout.same(one, other) or _is_rounding(one, other) for one, other in pairs)


def _is_rounding(first: Any, again: Any) -> bool:
    if not isinstance(first, torch.Tensor):
        return bool(first == again)
    if not torch.equal(*(torch.isfinite(computable(each)) for each in (first, again))):
        return False
    return errors(again, first)[0] <= FLOORS.get(first.dtype, (DIFFER, DIFFER))[0]


def spread(first: Any, call: Call) -> tuple[tuple[float, float], ...]:
    """Differences between answers to the same inputs, per output: relative L2, and
    the largest error over rms.

    `first`: one answer; `call` gives another one each time.
    """
    found = [(0.0, 0.0)] * len(list(layout.values(first)))
    for _ in range(REPEATS):
        for index, (mine, theirs) in enumerate(
            zip(layout.values(call()), layout.values(first), strict=True)
        ):
            if isinstance(mine, torch.Tensor):
                l2, largest = errors(mine, theirs)
                found[index] = (max(found[index][0], l2), max(found[index][1], largest))
    return tuple(found)
