"""EVALUATE: are the candidate's products in 16 bits or TF32 where the reference's are in fp32?

The comparison refuses that unless errors average out, in a sum or a mean behind the products.  Then
the candidate's errors in some further calls are set against those that narrow factors would cause
(workers/shims/problem/answers/narrow_products.py).  Errors of an answer in fp32 do not depend on
the low bits of the factors, so that their share in the predicted ones is zero; that of an answer
with narrow factors is one, or a part of one if some of its factors are narrow.

So is the share of errors that leaving out a term with a faint part in the answer would cause; of
an answer of a few numbers faint_terms.py tells.

A share counts where it is hardly chance: by the number of elements, and by controls, in which the
low bits have random signs.  It does not count where the reference in its own precision has it, too.

A problem whose inputs, parameters and outputs are all of 16 bits allows factors of its type.

Factors that are scaled before they are narrowed err otherwise: scaled_factors.py looks for them.
This does not guard against a candidate that computes in fp32 after some calls or seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch

from app.domain.evidence import NarrowProducts
from workers.protocol import layout, product_errors
from workers.protocol.problem_spec import ProblemSpec
from workers.protocol.product_errors import BRAIN, HALF, LEFT_OUT, PREDICTIONS, Sums
from workers.referee.probes import faint_terms, scaled_factors
from workers.referee.session import memory_needs
from workers.referee.session.batches import Delivery
from workers.referee.session.context import EvaluationContext
from workers.referee.session.questions import PredictedErrors
from workers.referee.session.reference_side import give_back, make_room

GAIN = 1.05
"""Speedup from which on a candidate is looked at, or once it is certainly above 1: a look takes
eleven answers of the reference in fp64, and of a problem that is new a second more.
"""

SHARE = 0.25
"""Least share of the predicted errors in an answer's: if the products of one layer in two have one
narrow factor.  Products that are split into three, of high and low parts, have less than 0.01.
"""

SIGNIFICANT = 5.0
"""Least significance in standard deviations (Fisher's transformation of the correlation)."""

BEYOND_CONTROLS = 3.0
"""Least significance in multiples of that of the controls (root mean square)."""

OWN_SHARE = 0.75
"""Share of the reference's own answer, relative to the candidate's, from which on it proves
nothing.  In bf16 the sum with a faint term rounds half of that away.
"""

BELOW_ROUNDING = 0.5
"""Size of predicted errors, relative to the errors of the reference in its own precision, below
which they are no loss: a branch in half precision that a constant scales to a millionth.
"""

CERTAIN = 3.0
"""Standard deviations by which a share below SHARE is certainly below."""

CONTROLS = 6
"""Number of controls."""

FEW, FEWEST, MOST = 4, 8, 1 << 22
"""Elements of an output, over all calls, from which on their size says something, their
correlation does, and both say enough.
"""

LARGEST = 1 - 1e-9
"""Largest correlation: that of errors without any other has no transformation."""

VARYING = 1e-20
"""Least share of the squares that varies between elements: less is rounding of the sums."""

CALLS, AT_ONCE, SECONDS = 96, 12, 10.0
"""Most calls, most of them in a row, and processor seconds of the reference after which no further
ones are made.
"""

FURTHER_S = 4.0
"""Processor seconds of the reference after which no further call is made on inputs of other kinds
(faint_terms.py, scaled_factors.py): an answer in fp64 of a network of a hundred layers takes one.
"""

LARGE_BYTES = 1 << 30
"""Memory for expected outputs from which on room is made, and given back by the reference
afterwards.
"""


UNKNOWN = "products: the reference's process could not predict errors of narrow ones"
"""Text of the record: memory ran out, or calls are streamed whole."""

OUT_OF_TIME = "products: no time for further calls on inputs of other kinds"
"""Text of the record for a reference whose answers take long."""


@dataclass(kw_only=True)
class _Tally:
    """Sums of errors over some calls, by output and prediction."""

    sums: dict[tuple[int, int], Sums] = field(default_factory=dict)
    busy_s: float = 0.0
    calls: int = 0

    def add(self, found: PredictedErrors) -> None:
        for output, rows in found.of_outputs.items():
            for at, row in enumerate(rows):
                key = output, at
                self.sums[key] = self.sums.get(key, Sums()).plus(row)
        self.busy_s += found.busy_s
        self.calls += 1

    @property
    def at_once(self) -> int:
        """Further calls to make in a row: one at first, then those for which there is time."""
        if not self.calls:
            return 1
        left = (SECONDS - self.busy_s) * self.calls / max(self.busy_s, 1e-9)
        return max(1, min(AT_ONCE, math.ceil(left)))

    @property
    def strongest(self) -> tuple[int, int] | None:
        """Output and prediction with the most significant share; None if none has one."""
        found = [key for key, sums in self.sums.items() if _is_found(sums)]
        return max(found, key=lambda key: significance(self.sums[key]), default=None)

    @property
    def left_out(self) -> list[Sums]:
        """Sums of the outputs with terms that may be left out."""
        return [
            sums
            for (_, at), sums in self.sums.items()
            if 1 << at == product_errors.OF_LEFT_OUT and sums.elements
        ]

    @property
    def open(self) -> int:
        """Bit mask of the predictions of which further calls could show a share; of results that
        are narrow alone, which gains little, if others have one: their errors are the faintest.
        """
        found = {at for (_, at), sums in self.sums.items() if _may_be_found(sums)}
        alone = {at for at in found if PREDICTIONS[at] in product_errors.OF_RESULTS}
        return 0 if found == alone else sum(1 << at for at in found)


def check(context: EvaluationContext) -> NarrowProducts | None:
    """Make further calls, verify them, and look at their errors.  None if the reference's process
    cannot predict any, which the record says, or a comparison shows them.  Wrong calls are recorded
    like others.
    """
    runner = context.runner
    need_bytes = memory_needs.of_products(context.spec)
    if need_bytes <= LARGE_BYTES:
        return _checked(context)
    make_room(runner.reference, need_bytes, runner.device_lock.uncharged)
    try:
        return _checked(context)
    finally:
        give_back(runner.reference, runner.device_lock.uncharged)


def _checked(context: EvaluationContext) -> NarrowProducts | None:
    tally, wanted, seen = _Tally(), looked_at(context.spec), list[Delivery]()
    while wanted and tally.calls < CALLS and tally.busy_s < SECONDS:
        deliveries = _calls(context, tally.at_once)
        if not deliveries:
            return None
        for delivery in deliveries:
            found = _predicted(context, delivery, wanted)
            if found is None:
                context.runner.record.excused.append(UNKNOWN)
                return None
            if not found.of_outputs:
                return None
            tally.add(found)
            seen.append(delivery)
            wanted = 0 if tally.strongest is not None else tally.open
            if not wanted:
                break
    concluded = _concluded(context, tally, seen)
    if concluded is None or concluded.found:
        return concluded
    predicted = _limited(context)
    if tally.left_out:
        left_out = faint_terms.check(context.runner, predicted)
        is_lost = left_out is not None and not left_out.calls and not context.spec.constants
        if left_out is not None and (
            left_out.found or (is_lost and not any(map(_matters, tally.left_out)))
        ):
            return left_out

    if _own_bits(context.spec) is not None:
        return concluded

    def usual(count: int) -> list[Delivery]:
        found = seen[:count]
        while len(found) < count and (more := _calls(context, count - len(found))):
            found += more
        return found

    scaled = scaled_factors.check(context.runner, predicted, usual)
    return scaled if scaled is not None and scaled.found else concluded


def looked_at(spec: ProblemSpec) -> int:
    """Bit mask of the predictions that an answer must not follow.  Factors of 16 bits are a
    problem's own precision where it gives and takes no others, though its reference computes in
    fp32 between: a kernel for attention in bf16 rounds the weights for their product with values.
    """
    own = _own_bits(spec) or math.inf
    allowed = (
        1 << at
        for at, each in enumerate(PREDICTIONS)
        if each.format != LEFT_OUT and each.format.bits >= own
    )
    return product_errors.ALL & ~sum(allowed)


def _own_bits(spec: ProblemSpec) -> int | None:
    """Bits of the significand, without the hidden one, of the widest type of a problem with numbers
    of 16 bits; None if it has wider ones.
    """
    nodes = (spec.inputs, spec.outputs, *spec.parameters.values())
    tensors = [leaf for node in nodes for leaf in layout.leaves(node) if leaf["kind"] == "tensor"]
    types = set(map(layout.dtype_of, tensors))
    numbers = {each for each in types if each.is_floating_point or each.is_complex}
    widest = max((each.itemsize for each in numbers), default=0)
    if widest != torch.float16.itemsize:
        return None
    return HALF.bits if torch.float16 in numbers else BRAIN.bits


def _predicted(
    context: EvaluationContext, delivery: Delivery, wanted: int, control: int = 0
) -> PredictedErrors | None:
    with context.resources.device_lock.shared():
        return context.runner.questions.predicted_errors(delivery, wanted, control)


def _limited(context: EvaluationContext) -> faint_terms.Predicted:
    """Function that predicts errors until that has taken FURTHER_S; then None, which the record
    says once.
    """
    busy_s = 0.0

    def predicted(delivery: Delivery, wanted: int) -> PredictedErrors | None:
        nonlocal busy_s
        if busy_s > FURTHER_S:
            return None
        found = _predicted(context, delivery, wanted)
        busy_s += found.busy_s if found is not None else 0.0
        if busy_s > FURTHER_S:
            context.runner.record.excused.append(OUT_OF_TIME)
        return found

    return predicted


def _calls(context: EvaluationContext, count: int) -> list[Delivery]:
    """Further calls, each as a delivery of its own; none if one is wrong."""
    runner = context.runner
    with context.resources.device_lock.shared():
        batch = runner.draw(min(count, runner.in_block))
        delivery = runner.run_candidate(batch, 0, batch.slots)
        if not runner.verify(delivery):
            return []
    return [delivery.part(call, call + 1) for call in range(delivery.count)]


def _concluded(
    context: EvaluationContext, tally: _Tally, seen: list[Delivery]
) -> NarrowProducts | None:
    """The result; controls are made where there is a share."""
    if not tally.sums:
        return None
    key = tally.strongest
    controls = [] if key is None else _controls(context, seen, key)
    output, at = key or max(tally.sums, key=lambda each: significance(tally.sums[each]))
    sums = tally.sums[output, at]
    usual = math.sqrt(sum(each**2 for each in controls) / len(controls)) if controls else None
    prediction = PREDICTIONS[at]
    return NarrowProducts(
        found=usual is not None and significance(sums) >= BEYOND_CONTROLS * usual,
        format=prediction.format.name,
        parts=prediction.parts,
        output=output,
        share=share(sums),
        significance=significance(sums),
        control_significance=usual,
        own_share=own_share(sums),
        calls=tally.calls,
        elements=round(sums.elements),
    )


def _controls(
    context: EvaluationContext, seen: list[Delivery], key: tuple[int, int]
) -> list[float]:
    """Significance of the share in each control; empty if the process cannot tell."""
    found = []
    for control in range(1, CONTROLS + 1):
        tally = _Tally()
        for delivery in seen:
            told = _predicted(context, delivery, 1 << key[1], control)
            if told is None or key[0] not in told.of_outputs:
                return []
            tally.add(told)
        found.append(significance(tally.sums[key]))
    return found


def share(sums: Sums) -> float:
    """Share of the predicted errors in an answer's: the slope of a regression."""
    varying = _varying(sums)
    return varying.error_predicted / varying.predicted_squares if _is_predicted(sums) else 0.0


def own_share(sums: Sums) -> float:
    """The same of the reference's own answer."""
    return share(_of_reference(sums))


def significance(sums: Sums) -> float:
    """Correlation of errors with the predicted ones, in standard deviations from none."""
    varying = _varying(sums)
    size = math.sqrt(max(0.0, varying.error_squares) * max(0.0, varying.predicted_squares))
    if not _is_predicted(sums) or not size or sums.elements <= FEWEST:
        return 0.0
    correlation = max(-LARGEST, min(LARGEST, varying.error_predicted / size))
    return math.atanh(correlation) * math.sqrt(sums.elements - 3)


def _of_reference(sums: Sums) -> Sums:
    """The sums with the errors of the reference's own answer in place of the candidate's."""
    return sums._replace(
        error=sums.own, error_squares=sums.own_squares, error_predicted=sums.own_predicted
    )


def _is_predicted(sums: Sums) -> bool:
    return sums.elements > 1 and (
        _varying(sums).predicted_squares > VARYING * sums.predicted_squares
    )


def _varying(sums: Sums) -> Sums:
    """The sums without the means: errors that all elements share may be chance."""
    n = max(1.0, sums.elements)
    return sums._replace(
        error_squares=sums.error_squares - sums.error**2 / n,
        predicted_squares=sums.predicted_squares - sums.predicted**2 / n,
        error_predicted=sums.error_predicted - sums.error * sums.predicted / n,
    )


def _is_found(sums: Sums) -> bool:
    found = share(sums)
    is_certain = found >= SHARE and significance(sums) >= SIGNIFICANT
    return is_certain and own_share(sums) < OWN_SHARE * found and _matters(sums)


def _matters(sums: Sums) -> bool:
    """Test whether the predicted errors are as large as rounding."""
    own = _varying(_of_reference(sums)).error_squares
    return _varying(sums).predicted_squares >= BELOW_ROUNDING**2 * own


def _may_be_found(sums: Sums) -> bool:
    """Test whether more elements could show a share."""
    if not sums.elements:
        return False  # there is no such product
    if sums.elements < FEW:
        return True
    varying = _varying(sums)
    if not _is_predicted(sums) or sums.elements >= MOST:
        return False
    if varying.error_squares < (SHARE / 2) ** 2 * varying.predicted_squares:
        return False  # they are too small to hold the share
    if sums.elements <= FEWEST:
        return True
    if not _matters(sums):
        return False
    if own_share(sums) >= SHARE and significance(_of_reference(sums)) >= SIGNIFICANT:
        return False  # the reference itself has narrow factors
    unexplained = varying.error_squares - share(sums) ** 2 * varying.predicted_squares
    deviation = math.sqrt(max(0.0, unexplained) / varying.predicted_squares / (sums.elements - 2))
    return share(sums) + CERTAIN * deviation >= SHARE
