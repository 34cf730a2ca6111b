"""EVALUATE: are factors of products scaled, by no power of two, before they are narrowed?

Their roundings are then others than those of the factors as they are, which narrow_products.py
predicts, and cannot be predicted without the scale.  So the candidate is called on inputs of which
most elements have one of two magnitudes (workers/shims/problem/inputs/levelled_inputs.py): there
the roundings are a part of the whole product, and change much with each draw, although the lower
magnitude changes little.  Errors of an answer in fp32 do not change so, be it by another formula
or an approximation; nor do the candidate's on the problem's own inputs, where roundings average
out.

This does not guard against a scale of its own for each column of a factor, other than its largest
element; nor against products that take no input, but results of others, unlike for each element.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence

from app.domain import evidence
from app.domain.evidence import NarrowProducts
from workers.protocol.input_variants import Variant
from workers.protocol.product_errors import OF_SCALED, Sums
from workers.referee.session.batches import Delivery
from workers.referee.session.call_runner import CallRunner
from workers.referee.session.questions import PredictedErrors

SHARE = 0.25
"""Least change of errors between calls (standard deviation) as a share of the predicted ones, 2 to
the power of minus 13 of a product: 3e-5.  Factors in half precision or TF32 err by 2e-4, products
of three parts in bf16 by 4e-6, in TF32 by less than 1e-6.
"""

BEYOND_USUAL, BEYOND_OWN = 2.0, 4.0
"""Least change in multiples of that on the problem's own inputs, where the fixed roundings of
weights cause some, too; and of the reference's own.
"""

CALLS, FIRST = 12, 4
"""Calls on such inputs; and the first of them, after which no more are made if their errors differ
by less than a quarter of SHARE.
"""

Predicted = Callable[[Delivery, int], PredictedErrors | None]
"""Errors of one call, for a bit mask of predictions."""

_AT = OF_SCALED.bit_length() - 1


def check(
    runner: CallRunner, predicted: Predicted, usual: Callable[[int], Sequence[Delivery]]
) -> NarrowProducts | None:
    """Make calls on such inputs, and compare their errors with those of as many usual calls.  None
    if there are no such inputs, or nothing can be predicted.
    """
    found: dict[int, list[Sums]] = {}
    for delivery in _calls(runner):
        if not _add(found, predicted(delivery, OF_SCALED)):
            return None
        calls = max(map(len, found.values()))
        if calls == FIRST and all(_spread(each) < SHARE / 4 for each in _shares(found).values()):
            break
    if not found:
        return None
    shares = _shares(found)
    output = max(shares, key=lambda each: _spread(shares[each]))
    there, own = _spread(shares[output]), _spread(map(_own_share, found[output]))
    here = _usual(predicted, usual(CALLS), output) if there >= SHARE else None
    return NarrowProducts(
        found=here is not None and there >= max(BEYOND_USUAL * here, BEYOND_OWN * own),
        format=evidence.SCALED,
        parts="both",
        output=output,
        share=there,
        significance=there,
        control_significance=here,
        own_share=own,
        calls=len(found[output]),
        elements=round(sum(sums.elements for sums in found[output])),
    )


def _calls(runner: CallRunner) -> Iterator[Delivery]:
    """Calls on such inputs, one after another."""
    made = 0
    while made < CALLS:
        count = min(FIRST if made < FIRST else CALLS, CALLS - made, runner.in_block)
        with runner.device_lock.shared():
            batch = runner.draw_unusual((Variant.LEVELLED,), count)
            if batch is None:
                return
            delivery = runner.run_candidate(batch, 0, batch.slots)
        yield from (delivery.part(call, call + 1) for call in range(delivery.count))
        made += delivery.count


def _usual(predicted: Predicted, usual: Sequence[Delivery], output: int) -> float | None:
    """Share on the problem's own inputs; None if it cannot be told."""
    found: dict[int, list[Sums]] = {}
    for delivery in usual:
        if not _add(found, predicted(delivery, OF_SCALED)):
            return None
    return _spread(_shares(found)[output]) if len(found.get(output, ())) >= CALLS else None


def _add(found: dict[int, list[Sums]], told: PredictedErrors | None) -> bool:
    """Add the sums of one call by output; False if there are none."""
    if told is None or not told.of_outputs:
        return False
    for output, rows in told.of_outputs.items():
        found.setdefault(output, []).append(rows[_AT])
    return True


def _shares(found: dict[int, list[Sums]]) -> dict[int, list[float]]:
    return {output: [_share(sums) for sums in calls] for output, calls in found.items()}


def _share(sums: Sums) -> float:
    """Share of the predicted errors in an answer's; its mean counts, unlike in narrow_products."""
    return sums.error_predicted / sums.predicted_squares if sums.predicted_squares else 0.0


def _own_share(sums: Sums) -> float:
    return sums.own_predicted / sums.predicted_squares if sums.predicted_squares else 0.0


def _spread(shares: Iterable[float]) -> float:
    """Standard deviation; 0 of less than two."""
    every = list(shares)
    return statistics.stdev(every) if len(every) > 1 else 0.0
