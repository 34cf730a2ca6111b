"""Errors of a reference's answer if its products had factors of a narrower type, or if some of its
operators were left out.

Behind a sum or a mean the errors of products in 16 bits or TF32 average out, and an answer with
them is as near to the true one as an answer in fp32 has to be.  It has their errors all the same:
those of the low bits of each factor, which an answer in fp32 does not know.  So has an answer
without a term that has a faint part in it: its errors are that part.  The twin computes them, for
those products and operators (left_out_terms.py) with errors that do not show in a comparison.

Controls tell chance from them: errors of the same size and in the same places, of random signs.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import torch
from torch.utils.flop_counter import flop_registry

from workers.backends.recording import products
from workers.backends.support.time_limit import TimeLimit
from workers.protocol import layout
from workers.protocol.product_errors import (
    FEW,
    HALF,
    LEFT_OUT,
    MOST_OUTPUTS,
    PREDICTIONS,
    SCALED,
    Prediction,
    Sums,
)
from workers.protocol.roundoff import FLOORS, errors
from workers.shims.problem.answers import left_out_terms, pieces, true_answer
from workers.shims.problem.answers.narrowed_values import Narrow, narrowing, zeros
from workers.shims.problem.answers.tf32_products import place_of
from workers.shims.problem.answers.true_answer import NominalTypes, Truth, Widened
from workers.shims.problem.observers.one_signed_products import ATTENTION, FACTORS
from workers.shims.problem.reference_session import Session, call

HIDDEN, CLOSE = 4.0, 4.0
"""A product is looked at if it causes less than HIDDEN times the error that is allowed once it is
narrow, or left out; allowed is CLOSE times the reference's own.  Otherwise the comparison refuses
that.
"""

LARGE = 0.05
"""Least FLOPs of a product, relative to the largest one: there is little to gain by the others."""

SLOW_S = 0.1
"""Processor seconds of one answer from which on few predictions are made."""

SEARCH_S = 1.0
"""Processor seconds after which no further product is tried: timers wait meanwhile."""

LIMIT_S = 4.0
"""Limit of processor seconds for one answer."""

ELEMENTS = 1 << 20
"""Most elements of an output that are looked at, evenly spaced."""

FIRST, SECOND, ADDED, RESULT = range(4)
"""Parts of a product."""

PARTS = {
    "first": (FIRST,),
    "second": (SECOND,),
    "both": (FIRST, SECOND),
    "all": (FIRST, SECOND, ADDED, RESULT),
    "largest": (FIRST, SECOND),
    "result": (RESULT,),
}
"""Parts that are narrow, by Prediction.parts."""

_NUMBERS = 8
"""Numbers of a product for its parts: of attention there are up to six."""


class Product(NamedTuple):
    """A product of a call."""

    flops: int
    """0 if some products are narrow."""
    is_wide: bool
    """True if it is in fp32, and the problem does not allow TF32 in it."""
    takes_input: bool
    """True if a factor is an input of the call, or a view of one."""


class Hidden(NamedTuple):
    """Numbers, in the order of a call, of the products with errors that do not show."""

    narrow: frozenset[int]
    largest: frozenset[int]
    """The largest one of several."""
    of_inputs: frozenset[int]
    """Products of inputs; if there are none, the first."""
    left_out: frozenset[int]
    """Operators that may be left out, numbered for themselves."""
    is_slow: bool | None = None
    """True if an answer takes longer than SLOW_S; None until a second call, because the first one
    loads operators.
    """
    is_plain: bool = False
    """True if the twin's answer is the same without the mode, which takes ten times as long with
    each of a loop's operators.
    """

    @property
    def is_empty(self) -> bool:
        """True if no prediction concerns anything."""
        return not (self.narrow or self.largest or self.of_inputs or self.left_out)

    def of(self, prediction: Prediction) -> frozenset[int]:
        """Numbers of the products, or operators, that a prediction concerns."""
        if prediction.format == LEFT_OUT:
            return self.left_out
        if prediction.format == SCALED:
            return self.of_inputs
        return self.largest if prediction.parts == "largest" else self.narrow


NONE = Hidden(frozenset(), frozenset(), frozenset(), frozenset())


class NarrowProducts(Widened):  # type: ignore[no-untyped-call]
    """Dispatch mode that computes in fp64, with some products narrow."""

    def __init__(
        self,
        session: Session,
        inputs: Any,
        narrow: Narrow,
        parts: Collection[int],
        chosen: Collection[int],
    ) -> None:
        """`inputs`: those of the call; `parts`: those that are narrow; `chosen`: numbers of the
        products.
        """
        super().__init__()
        self._given = {_place(x) for x in layout.values(inputs) if isinstance(x, torch.Tensor)}
        self._narrow, self._parts, self._chosen = narrow, parts, chosen
        self._numerics = session.spec.numerics
        self.products: list[Product] = []

    def compute(self, func: Any, called: torch.dtype, args: Any, kwargs: Any) -> Any:
        """The operation's result, of narrow parts if it is a chosen product."""
        name = func._schema.name.removesuffix("_")
        factors = (0, 1, 2) if name.startswith(ATTENTION) else FACTORS.get(name, ())
        if not factors:
            return super().compute(func, called, args, kwargs)
        number, first = len(self.products), _NUMBERS * len(self.products)
        takes_input = any(_place(args[at]) in self._given for at in factors)
        if number in self._chosen:
            args = [
                self._narrowed(each, _part(at, factors), first + min(at, 5))
                for at, each in enumerate(args)
            ]
        result = super().compute(func, called, args, kwargs)
        place = place_of(func) or "matmul"  # the products of attention have no setting of their own
        is_wide = called == torch.float32 and self._numerics[place] != "tf32"
        flops = 0 if self._chosen else _flops(func, args, kwargs, result)
        self.products.append(Product(flops, is_wide, takes_input))
        if number in self._chosen:
            last = first + _NUMBERS - 1
            return layout.mapped(lambda each: self._narrowed(each, RESULT, last), result)
        return result

    def _narrowed(self, value: Any, part: int, number: int) -> Any:
        """A part of a product, narrow if it is to be."""
        is_float = isinstance(value, torch.Tensor) and value.dtype == torch.float64
        if part not in self._parts or not is_float:
            return value
        found = self._narrow(value, number)
        found._nominal = true_answer.nominal(value)  # type: ignore[attr-defined]
        return found


class _Question(NamedTuple):
    """A session, and inputs of one call or of a piece of it."""

    session: Session
    inputs: list[Any]

    def answer(
        self,
        narrow: Narrow,
        parts: Collection[int],
        chosen: Collection[int],
    ) -> tuple[list[torch.Tensor], list[Product]]:
        """The twin's answer with some products narrow, and all products."""
        wide = true_answer.widened(self.inputs)
        mode = NarrowProducts(self.session, wide, narrow, parts, chosen)
        with TimeLimit(LIMIT_S), NominalTypes(), mode:
            found = true_answer.call(self.session.twin, wide, Truth.FP64)
        return list(layout.values(found)), mode.products

    def plain_answer(self) -> list[torch.Tensor]:
        """The twin's answer as expected outputs are computed."""
        spec = self.session.spec
        with TimeLimit(LIMIT_S):
            best, wide = Truth(spec.truth), true_answer.widened(self.inputs)
            return list(layout.values(true_answer.call(self.session.twin, wide, best)))

    def without(
        self, chosen: Collection[int], change: Narrow
    ) -> tuple[list[torch.Tensor], list[int]]:
        """The twin's answer with the results of some operators replaced, and the work of each."""
        wide, mode = true_answer.widened(self.inputs), left_out_terms.LeavingOut(chosen, change)
        with TimeLimit(LIMIT_S), NominalTypes(), mode:
            found = true_answer.call(self.session.twin, wide, Truth.FP64)
        return list(layout.values(found)), mode.work


def sums(
    session: Session, slot: int, control: int, wanted: int, known: Hidden | None
) -> tuple[list[tuple[int, list[Sums]]], Hidden] | None:
    """Sums by output, one for each of PREDICTIONS, for the answer in an output slot; and the
    products that are looked at, the `known` ones if given.  Without any there are no sums.
    None if nothing can be predicted for this problem.  `control`: 0, or the number of a control;
    `wanted`: bit mask of predictions, zeros stand for the others.
    """
    if known is not None and known.is_empty:
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
    at = [i for i, each in enumerate(got) if each.dtype in FLOORS and each.is_floating_point()]
    asked, began = _Question(session, inputs), time.process_time()
    if known is not None and known.is_plain and known.is_slow is not None:
        truth, products, is_slow = asked.plain_answer(), list[Product](), known.is_slow
    else:
        truth, products = asked.answer(zeros, (), ())
        is_slow = time.process_time() - began > SLOW_S
    own = list(layout.values(call(session.model, inputs)))
    hidden = known or _hidden(asked, truth, own, at, products)
    if hidden.is_empty:
        return [], hidden
    if known is None:
        hidden = hidden._replace(is_plain=layout.same(truth, asked.plain_answer()))
    else:
        hidden = hidden._replace(is_slow=is_slow)
    wanted &= FEW if is_slow else wanted
    thin = {i: (_thinned(truth[i]), _thinned(got[i]), _thinned(own[i])) for i in at[:MOST_OUTPUTS]}
    del truth, own  # their memory is for the answers that follow
    found: dict[int, list[Sums]] = {i: [] for i in thin}
    for answer in _predictions(asked, hidden, control, wanted):
        for i, (exact, *others) in thin.items():
            each = [*others, _thinned(answer[i])] if answer else []
            found[i].append(_summed(*(x - exact for x in each)) if each else Sums())
        del answer
    return list(found.items()), hidden


def _hidden(
    asked: _Question,
    truth: list[torch.Tensor],
    own: list[torch.Tensor],
    at: list[int],
    products: list[Product],
) -> Hidden:
    """Products and operators with errors that do not show in a comparison.  `at`: outputs that
    count.
    """
    if not at:
        return NONE
    spread, allowed = asked.session.spec.spread, {}
    for index in at:
        usual = max(errors(own[index], truth[index])[0], spread[index][0] if spread else 0.0)
        allowed[index] = HIDDEN * max(FLOORS[own[index].dtype][0], CLOSE * usual)
    found = _narrow(asked, truth, products, allowed) if products else NONE
    return found._replace(left_out=_left_out(asked, truth, allowed))


def _left_out(
    asked: _Question, truth: list[torch.Tensor], allowed: dict[int, float]
) -> frozenset[int]:
    """Operators that may be left out.  `allowed`: error by output."""

    def is_faint(answer: Sequence[torch.Tensor]) -> bool:
        changed = [i for i, each in enumerate(truth) if not torch.equal(answer[i], each)]
        return bool(changed) and not any(
            i not in allowed or _differs(answer[i], truth[i], allowed[i]) for i in changed
        )

    _, work = asked.without((), zeros)
    return left_out_terms.faint(lambda chosen: asked.without(chosen, zeros)[0], work, is_faint)


def _narrow(
    asked: _Question,
    truth: list[torch.Tensor],
    products: list[Product],
    allowed: dict[int, float],
) -> Hidden:
    """Products of which narrow factors do not show."""
    until = time.process_time() + SEARCH_S

    def shows(chosen: Collection[int], narrow: Narrow, parts: Collection[int]) -> bool:
        if time.process_time() > until:
            return True
        answer, _ = asked.answer(narrow, parts, chosen)
        return any(_differs(answer[i], truth[i], most) for i, most in allowed.items())

    def found(numbers: list[int], narrow: Narrow, parts: Collection[int]) -> frozenset[int]:
        return frozenset(number for number in numbers if not shows({number}, narrow, parts))

    least = LARGE * max(each.flops for each in products)
    wide = [i for i, each in enumerate(products) if each.is_wide and each.flops >= least]
    half = narrowing(HALF)
    narrow = frozenset(wide)
    if shows(wide, half, PARTS["both"]):
        narrow = found(wide, half, PARTS["both"]) if len(wide) > 1 else frozenset()
    by_work = sorted(narrow, key=lambda number: products[number].flops)
    largest = frozenset(by_work[-1:] if len(by_work) > 1 else ())
    of_inputs = frozenset(number for number in narrow if products[number].takes_input)
    of_inputs = of_inputs or frozenset(sorted(narrow)[:1])
    return Hidden(narrow, largest, of_inputs, frozenset())


def _differs(answer: torch.Tensor, truth: torch.Tensor, most: float) -> bool:
    """Test whether an answer is off by more than this relative L2 error, or not finite."""
    both = torch.equal(torch.isfinite(answer), torch.isfinite(truth))
    return not both or errors(answer, truth)[0] > most


def _predictions(
    asked: _Question, hidden: Hidden, control: int, wanted: int
) -> Iterator[list[torch.Tensor]]:
    """Answers for each of PREDICTIONS, one after another, since each takes the memory of one; empty
    ones for those that are not wanted, or concern no product.
    """
    for bit, each in enumerate(PREDICTIONS):
        chosen = hidden.of(each)
        narrow = narrowing(each.format, control)
        if not (chosen and wanted >> bit & 1):
            yield []
        elif each.format == LEFT_OUT:
            yield asked.without(chosen, narrow)[0]
        else:
            yield asked.answer(narrow, PARTS[each.parts], chosen)[0]


def _summed(e: torch.Tensor, o: torch.Tensor, d: torch.Tensor) -> Sums:
    """Sums over the elements that are finite in the errors of the answer, of the reference's own
    answer and of the predicted one; zeros if squares overflow.
    """
    finite = torch.isfinite(e) & torch.isfinite(o) & torch.isfinite(d)
    e, o, d = (torch.where(finite, each, 0.0) for each in (e, o, d))
    found = [finite.sum().double(), e.sum(), e.dot(e), o.sum(), o.dot(o)]
    found += [d.sum(), d.dot(d), e.dot(d), o.dot(d)]
    numbers: list[float] = torch.stack(found).tolist()
    return Sums(*numbers) if all(map(math.isfinite, numbers)) else Sums()


def _thinned(values: torch.Tensor) -> torch.Tensor:
    """Private copy of the elements that are looked at, in fp64."""
    flat = values.reshape(-1)
    return flat[:: -(-flat.numel() // ELEMENTS)].to(torch.float64, copy=True)


def _place(x: torch.Tensor) -> int:
    return x.untyped_storage().data_ptr()


def _part(at: int, factors: Sequence[int]) -> int:
    """Part of a product that an argument is; of attention, keys and values are the second."""
    if at not in factors:
        return ADDED
    return FIRST if at == factors[0] else SECOND


def _flops(func: Any, args: Any, kwargs: Any, result: Any) -> int:
    if product := products.of_call(func, args, kwargs, result):
        return product
    with suppress(Exception):  # a formula that does not know these arguments
        return int(flop_registry[func._overloadpacket](*args, **kwargs, out_val=result))
    return 1
