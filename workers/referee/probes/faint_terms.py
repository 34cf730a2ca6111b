"""EVALUATE: does the candidate leave out a term that is a faint part of the reference's answer?

Such an answer is right by any comparison, and a regression of its errors on the term (probes/
narrow_products.py) takes more elements than a loss has.  The term is another part of the answer to
other inputs: so the candidate is called on inputs of all unusual kinds, and on some that are
smaller by up to 2 to the power of 24.  Where the term is far larger than the reference's own error,
the candidate's error is that term each time, or a small part of it.

A term that is lost in the reference's own rounding on all these inputs shows nowhere: an answer
without it is as right, and the problem is at fault (app/detectors/degenerate_problem.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from app.domain.evidence import LEFT_OUT, NarrowProducts
from workers.protocol.input_variants import CHECKED, Variant
from workers.protocol.product_errors import OF_LEFT_OUT, PREDICTIONS, Sums
from workers.referee.session.batches import Delivery
from workers.referee.session.call_runner import CallRunner
from workers.referee.session.questions import PredictedErrors

TELLS = 16.0
"""Least size of a term where it tells, in multiples of the reference's own error.  A right answer
errs by up to four of these.
"""

NEAR = 0.25
"""Largest difference between an error and the term, as a share of the term, if it is left out."""

LEAST, MOST_OTHERS = 3, 0.25
"""Calls in which it tells from which on they prove something, and the share of them in which the
error may be another: the reference's own is nearly zero by chance in some.
"""

SMALLER = 4
"""Calls on inputs that are smaller."""

Predicted = Callable[[Delivery, int], PredictedErrors | None]
"""Errors of one call, for a bit mask of predictions."""

_AT = OF_LEFT_OUT.bit_length() - 1


def check(runner: CallRunner, predicted: Predicted) -> NarrowProducts | None:
    """Make calls on such inputs, and compare their errors with the term.  None if the process
    cannot tell.  No more calls are made than decide.
    """
    telling: dict[int, list[Sums]] = {}
    left, is_cut_short = len(CHECKED) + SMALLER, False
    for delivery in _calls(runner):
        told, left = predicted(delivery, OF_LEFT_OUT), left - 1
        if told is None or not told.of_outputs:
            is_cut_short = True
            break
        for output, rows in told.of_outputs.items():
            calls = telling.setdefault(output, [])
            if _tells(rows[_AT]):
                calls.append(rows[_AT])
        if all(_is_decided(calls, left) for calls in telling.values()):
            break
    if not telling:
        return None
    output = max(telling, key=lambda each: len(telling[each]))
    calls = telling[output]
    near = _near(calls)
    found = _is_left_out(len(near), len(calls))
    if is_cut_short and not found:
        return None
    shares = sorted(map(_share, calls))
    return NarrowProducts(
        found=found,
        format=LEFT_OUT,
        parts=PREDICTIONS[_AT].parts,
        output=output,
        share=shares[len(shares) // 2] if shares else 0.0,
        significance=float(len(near)),
        control_significance=None,
        own_share=max((abs(_share_of_own(sums)) for sums in calls), default=1.0),
        calls=len(calls),
        elements=round(sum(sums.elements for sums in calls)),
    )


def _near(calls: Sequence[Sums]) -> list[Sums]:
    """Sums of the calls with the term as their error."""
    return [sums for sums in calls if abs(_share(sums) - 1) <= NEAR]


def _is_left_out(near: int, telling: int) -> bool:
    return near >= LEAST and near >= (1 - MOST_OTHERS) * telling


def _is_decided(calls: Sequence[Sums], left: int) -> bool:
    """Test whether `left` further calls, each with or without the term, cannot change the result of
    these calls, in which it tells.
    """
    near, most = len(_near(calls)), len(calls) + left
    return bool(calls) and _is_left_out(near, most) is _is_left_out(near + left, most)


def _calls(runner: CallRunner) -> Iterator[Delivery]:
    """Calls on such inputs, one after another."""
    for kinds, sets in ((CHECKED, 1), ((Variant.SMALLER,), SMALLER)):
        at_once = max(1, runner.in_block // sets)
        for start in range(0, len(kinds), at_once):
            with runner.device_lock.shared():
                some = kinds[start : start + at_once]
                batch = runner.draw_unusual(some, min(sets, runner.in_block))
                if batch is None:
                    continue
                delivery = runner.run_candidate(batch, 0, batch.slots)
            yield from (delivery.part(call, call + 1) for call in range(delivery.count))


def _tells(sums: Sums) -> bool:
    """Test whether the term is far larger than the reference's own error."""
    return sums.predicted_squares > TELLS**2 * sums.own_squares


def _share(sums: Sums) -> float:
    """Part of the term in the candidate's error; its mean counts, unlike in narrow_products."""
    return sums.error_predicted / sums.predicted_squares if sums.predicted_squares else 0.0


def _share_of_own(sums: Sums) -> float:
    return sums.own_predicted / sums.predicted_squares if sums.predicted_squares else 0.0
