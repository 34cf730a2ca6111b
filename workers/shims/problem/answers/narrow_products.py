"""Errors of a reference's answer if its products had factors of a narrower type.

Behind a sum or a mean the errors of products in 16 bits or TF32 average out, and an answer with
them is as near to the true one as an answer in fp32 has to be.  It has their errors all the same:
those of the low bits of each factor, which an answer in fp32 does not know.  The twin computes
them, with narrow factors in those products whose errors do not show in a comparison.

Controls tell chance from them: errors of the same size and in the same places, of random signs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import torch
from torch.utils.flop_counter import flop_registry

from workers.backends.support.dispatch_mode import TimeLimit, Watching
from workers.protocol import layout
from workers.protocol.precision_flags import Numerics
from workers.protocol.product_errors import (
    HALF,
    MOST_OUTPUTS,
    PREDICTIONS,
    Format,
    Sums,
)
from workers.protocol.roundoff import FLOORS, errors
from workers.shims.problem.answers import pieces, true_answer
from workers.shims.problem.answers.true_answer import NominalTypes, Truth, Widened
from workers.shims.problem.observers.one_signed_products import ATTENTION, FACTORS
from workers.shims.problem.reference_session import Session, call

HIDDEN, CLOSE = 4.0, 4.0
"""A product is looked at if narrow factors in it cause less than HIDDEN times the error that is
allowed, which is CLOSE times the reference's own: otherwise the comparison refuses them.
"""

LARGE = 0.05
"""Least share of a product in the FLOPs of all: there is little to gain by the others."""

LIMIT_S = 4.0
"""Limit of processor seconds for one answer."""

ELEMENTS = 1 << 20
"""Most elements of an output that are looked at, evenly spaced."""

CHUNK = 1 << 24
"""Elements of a factor that are narrowed at once."""

_EXPLICIT_BITS = 52
"""Bits of the significand of fp64, without the hidden one."""

FIRST, SECOND, ADDED, RESULT = range(4)
"""Parts of a product."""

PARTS = {
    "first": (FIRST,),
    "second": (SECOND,),
    "both": (FIRST, SECOND),
    "all": (FIRST, SECOND, ADDED, RESULT),
}
"""Parts that are narrow, by Prediction.parts."""

Narrow = Callable[[torch.Tensor, int], torch.Tensor]
"""Function that narrows a part of a product in fp64; the second argument numbers them in a call."""

_NUMBERS = 8
"""Numbers of a product for its parts: of attention there are up to six."""


class NarrowProducts(Widened):  # type: ignore[no-untyped-call]
    """Dispatch mode that computes in fp64, with narrow factors in products that are in fp32."""

    def __init__(
        self,
        session: Session,
        narrow: Narrow,
        parts: Collection[int],
        chosen: Collection[int] | None,
    ) -> None:
        """`parts`: those that are narrow; `chosen`: numbers of the products in the order of a
        call, None for all.
        """
        super().__init__()
        self._narrow, self._parts, self._chosen = narrow, parts, chosen
        self._numerics = session.spec.numerics
        self.work: list[int] = []
        """FLOPs of each product."""

    def compute(self, func: Any, called: torch.dtype, args: Any, kwargs: Any) -> Any:
        """The operation's result, of narrow parts if it is a chosen product."""
        factors = _factors(func, self._numerics) if called == torch.float32 else ()
        if not factors:
            return super().compute(func, called, args, kwargs)
        number = len(self.work)
        if self._chosen is None or number in self._chosen:
            args = [
                self._narrowed(each, _part(at, factors), _NUMBERS * number + min(at, 5))
                for at, each in enumerate(args)
            ]
        result = super().compute(func, called, args, kwargs)
        self.work.append(_flops(func, args, kwargs, result))
        if self._chosen is None or number in self._chosen:
            last = _NUMBERS * (number + 1) - 1
            return layout.mapped(lambda each: self._narrowed(each, RESULT, last), result)
        return result

    def _narrowed(self, value: Any, part: int, number: int) -> Any:
        """A part of a product, narrow if it is to be."""
        is_wide = isinstance(value, torch.Tensor) and value.dtype == torch.float64
        if part not in self._parts or not is_wide:
            return value
        found = self._narrow(value, number)
        found._nominal = true_answer.nominal(value)  # type: ignore[attr-defined]
        return found


class _Products(Watching):  # type: ignore[no-untyped-call]
    """Dispatch mode that looks for products that can be narrow, in a call of the reference."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._numerics = session.spec.numerics
        self.seen = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        factors = _factors(func, self._numerics)
        self.seen |= bool(factors) and args[factors[0]].dtype == torch.float32
        return func(*args, **(kwargs or {}))


class _Question(NamedTuple):
    """A session, and inputs of one call or of a piece of it."""

    session: Session
    inputs: list[Any]

    def own_answer(self) -> tuple[list[torch.Tensor], bool]:
        """The reference's own answer, and whether it has products that can be narrow."""
        with TimeLimit(LIMIT_S), _Products(self.session) as products:
            found = call(self.session.model, self.inputs)
        return list(layout.values(found)), products.seen

    def answer(
        self,
        narrow: Narrow,
        parts: Collection[int] = (FIRST, SECOND),
        chosen: Collection[int] | None = None,
    ) -> tuple[list[torch.Tensor], list[int]]:
        """The twin's answer with some narrow products, and the FLOPs of each product."""
        mode = NarrowProducts(self.session, narrow, parts, chosen)
        wide = true_answer.widened(self.inputs)
        with TimeLimit(LIMIT_S), NominalTypes(), mode:
            found = true_answer.call(self.session.twin, wide, Truth.FP64)
        return list(layout.values(found)), mode.work


def sums(
    session: Session, slot: int, control: int, wanted: int, known: frozenset[int] | None
) -> tuple[list[tuple[int, list[Sums]]], frozenset[int]] | None:
    """Sums by output, one for each of PREDICTIONS, for the answer in an output slot; and the
    products that are looked at, the `known` ones if given.  Without any there are no sums.
    None if nothing can be predicted for this problem.  `control`: 0, or the number of a control;
    `wanted`: bit mask of predictions, zeros stand for the others.
    """
    if known is not None and not known:
        return [], known
    spec, streamed = session.spec, session.arena is not None and session.arena.slots.streamed
    lacks_truth = spec.truth not in (Truth.FP64, Truth.WIDENED) or session.twin is None
    if lacks_truth or spec.mutated_inputs or (streamed and spec.piece_rows is None):
        return None
    assert session.arena is not None
    assert session.memory is not None
    inputs = layout.rebuild(spec.inputs, iter(session.inputs[slot]))
    got = session.arena.outputs.views(session.memory, slot)
    if spec.piece_rows is not None:
        start = random.SystemRandom().randrange(got[0].shape[0] - spec.piece_rows + 1)
        inputs = pieces.cut(inputs, spec.piece_rows, start)
        got = pieces.rows_of(got, spec.piece_rows, start)
    asked = _Question(session, inputs)
    at = [i for i, each in enumerate(got) if each.dtype == torch.float32 and each.numel()]
    own, has_products = asked.own_answer()
    if not (at and has_products):
        return [], frozenset()
    truth, work = asked.answer(_as_it_is, chosen=())
    chosen = _hidden(asked, truth, own, at, work) if known is None else known
    if not chosen:
        return [], frozenset()
    predicted = _predictions(asked, chosen, control, wanted)
    return [
        (
            index,
            [
                _summed(got[index], own[index], truth[index], each[index]) if each else Sums()
                for each in predicted
            ],
        )
        for index in at[:MOST_OUTPUTS]
    ], chosen


def _hidden(
    asked: _Question,
    truth: list[torch.Tensor],
    own: list[torch.Tensor],
    at: list[int],
    work: list[int],
) -> frozenset[int]:
    """Products in which narrow factors do not show in a comparison.  `at`: outputs that count."""
    spread = asked.session.spec.spread
    allowed = {}
    for index in at:
        usual = max(errors(own[index], truth[index])[0], spread[index][0] if spread else 0.0)
        allowed[index] = HIDDEN * max(FLOORS[torch.float32][0], CLOSE * usual)

    def shows(chosen: Collection[int] | None) -> bool:
        narrow, _ = asked.answer(_narrowing(HALF), chosen=chosen)
        return any(errors(narrow[i], truth[i])[0] > most for i, most in allowed.items())

    if not shows(None):
        return frozenset(range(len(work)))
    large = [number for number, flops in enumerate(work) if flops >= LARGE * sum(work)]
    return frozenset(number for number in large if len(work) > 1 and not shows({number}))


def _predictions(
    asked: _Question, chosen: frozenset[int], control: int, wanted: int
) -> list[list[torch.Tensor]]:
    """Answers for each of PREDICTIONS; empty ones for those that are not wanted."""
    return [
        asked.answer(_narrowing(each.format, control), PARTS[each.parts], chosen)[0]
        if wanted >> bit & 1
        else []
        for bit, each in enumerate(PREDICTIONS)
    ]


def _summed(
    got: torch.Tensor, own: torch.Tensor, truth: torch.Tensor, narrow: torch.Tensor
) -> Sums:
    exact = _thinned(truth)
    e, o, d = (_thinned(each) - exact for each in (got, own, narrow))
    finite = torch.isfinite(e) & torch.isfinite(o) & torch.isfinite(d)
    e, o, d = (torch.where(finite, each, 0.0) for each in (e, o, d))
    found = [finite.sum().double(), e.sum(), e.dot(e), o.sum(), o.dot(o)]
    found += [d.sum(), d.dot(d), e.dot(d), o.dot(d)]
    return Sums(*torch.stack(found).tolist())


def _thinned(values: torch.Tensor) -> torch.Tensor:
    flat = values.reshape(-1)
    return flat[:: -(-flat.numel() // ELEMENTS)].double()


def _as_it_is(factor: torch.Tensor, _: int) -> torch.Tensor:
    return factor.view_as(factor)


def _narrowing(to: Format, control: int = 0) -> Narrow:
    """Function that narrows a factor; that of a control errs by as much, in a random direction,
    which is the same for the same element in each call.
    """

    def narrow(factor: torch.Tensor, number: int) -> torch.Tensor:
        found = factor.clone(memory_format=torch.contiguous_format)
        generator = torch.Generator(found.device).manual_seed(control << 16 | number)
        for part in torch.split(found.view(-1), CHUNK):
            near, far = _neighbours(part, to)
            if control:
                sides = torch.rand(part.shape, generator=generator, device=part.device) < 0.5
                near = torch.where(sides, near, far)
            part.copy_(near)
        return found.view(factor.shape)

    return narrow


def _neighbours(wide: torch.Tensor, to: Format) -> tuple[torch.Tensor, torch.Tensor]:
    """A factor in the narrower type; and errors that are as large on average, and uncorrelated
    with those once one of both is chosen at random.
    """
    dropped = _EXPLICIT_BITS - to.bits
    bits = wide.view(torch.int64)
    if to.cuts:
        cut = bits & (-1 << dropped)
        further = (cut + (1 << dropped)).view(torch.float64)
        return cut.view(torch.float64), 2 * wide - further
    half = (1 << (dropped - 1)) - 1 + (bits >> dropped & 1)
    near = (bits + half & (-1 << dropped)).view(torch.float64)
    return near, 2 * wide - near


def _factors(func: Any, numerics: Numerics) -> tuple[int, ...]:
    """Places of a product's factors among its arguments; none of a product that the problem allows
    to be in TF32, nor of another operation.
    """
    name = func._schema.name.removesuffix("_")
    place = "convolution" if "convolution" in name else "matmul"
    if numerics[place] == "tf32":
        return ()
    return (0, 1, 2) if name.startswith(ATTENTION) else FACTORS.get(name, ())


def _part(at: int, factors: Sequence[int]) -> int:
    """Part of a product that an argument is; of attention, keys and values are the second."""
    if at not in factors:
        return ADDED
    return FIRST if at == factors[0] else SECOND


def _flops(func: Any, args: Any, kwargs: Any, result: Any) -> int:
    with suppress(Exception):  # a formula that does not know these arguments
        return int(flop_registry[func._overloadpacket](*args, **kwargs, out_val=result))
    return 1
