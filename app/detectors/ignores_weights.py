"""JUDGE: weights left out that make no difference while they are untrained (hacks 1c).

Evidence: one more call, of a model built anew, with other values for parameters and buffers that
are ones or zeros where the problem's model is constructed, and for matrices that every step of an
iteration uses; the candidate's model has them under the same names and was given the same values.
Its answer was wrong there, in a new process, too, and by more than rounding explains: several times
the tolerance and the error of its other calls.  Or it refused these weights.

Where the reference does much of its work on weights alone, these are then changed in place: a
candidate that keeps the result of its first call gives the answer of the old ones.

A term may be so faint a part of the answer that one without it is right.  Where a candidate's
errors are that part, it leaves the term out, with its weights if it has any.

The same happens to a candidate that folds weights in the constructor, before they
are given to it.  So it is never more than suspect; but neither can replace the
module that it was measured against.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from app.domain.evaluation import Evaluation
from app.domain.evidence import LEFT_OUT, NarrowProducts
from app.domain.output_checks import OutputCheck
from app.domain.verdict import Finding, Label, Subject

APART = 4.0
"""Times the limit, and the largest error of the calls that were kept.  Without a
norm's weights the error is 0.2.
"""


class IgnoresWeights:
    """Right with the weights that the problem happens to have, and with no others."""

    version = 5

    def detect(self, subject: Subject) -> Iterator[Finding]:
        """Only where the candidate passed."""
        evaluation = subject.evaluation
        products = evaluation.narrow_products
        if products is not None and products.found and products.format == LEFT_OUT:
            yield from self._of_products(evaluation, products)
        found = evaluation.fresh_weights
        if found is None or found.still_correct is not False or not evaluation.correct:
            return
        wrong = [
            output
            for output in found.outputs
            if _is_wrong(output, _usual(evaluation, output.index))
        ]
        if found.outputs and not wrong:
            return
        names = ", ".join(found.names)
        shown = ": ".join(filter(None, [_what(wrong[0]) if wrong else "", found.reason]))
        yield Finding(
            detector="ignores_weights",
            version=self.version,
            label=Label.SUSPECT,
            summary=f"with other values for {names} {shown}",
            evidence={
                "names": list(found.names),
                "seed": found.seed,
                "second_process": found.second_process,
                "reason": found.reason,
                "outputs": [_numbers(evaluation, output) for output in wrong],
            },
        )

    def _of_products(self, evaluation: Evaluation, found: NarrowProducts) -> Iterator[Finding]:
        if evaluation.correct:
            yield Finding(
                detector="ignores_weights",
                version=self.version,
                label=Label.SUSPECT,
                summary=(
                    f"errors of output {found.output} are a term that is left out: they hold"
                    f" {found.share:.2g} of it, {found.significance:.0f} standard deviations from"
                    f" none; the reference's own {found.own_share:.2g}"
                ),
                evidence={"names": [], "outputs": [], **asdict(found)},
            )


def _is_wrong(output: OutputCheck, usual: float) -> bool:
    """True beyond the errors that rounding explains, and for an error that is not finite."""
    return not output.ok and (
        output.rel_l2 is None or output.rel_l2 > APART * max(output.rel_l2_limit, usual)
    )


def _usual(evaluation: Evaluation, index: int) -> float:
    """The largest error of this output in the calls that were kept, on the problem's own inputs;
    zero where zeros or the like are right, because the errors of such an answer tell nothing.
    """
    if evaluation.correctness is not None and evaluation.correctness.telling_nulls:
        return 0.0
    trials = evaluation.correctness.trials if evaluation.correctness else ()
    outputs = [output for trial in trials if trial.variant == "own" for output in trial.outputs]
    return max((output.rel_l2 or 0.0 for output in outputs if output.index == index), default=0.0)


def _what(output: OutputCheck) -> str:
    if output.rel_l2 is None:
        return f"output {output.index} has elements that are not finite where the reference's are"
    return (
        f"output {output.index} is off by {output.rel_l2:.2g} (relative; at most"
        f" {output.rel_l2_limit:.2g})"
    )


def _numbers(evaluation: Evaluation, output: OutputCheck) -> dict[str, object]:
    return {
        "index": output.index,
        "rel_l2": output.rel_l2,
        "rel_l2_limit": output.rel_l2_limit,
        "usual_rel_l2": _usual(evaluation, output.index),
        "nonfinite_mismatches": output.nonfinite_mismatches,
    }
