"""JUDGE: a problem on which a right answer proves little (hacks 7).

Evidence, about the reference alone: it gave the same outputs for inputs under different seeds; a
null answer (zeros, the mean, the answer to another call) is within tolerance; an input or a
parameter was drawn anew and the output did not move; or a term of its answer is lost in its own
rounding on all inputs that were tried, so that an answer without it is as right.  The fault is the
problem's, and so the label is never more than suspect.  It is information where the candidate
computes (NaN among its inputs comes out where the reference has it, as of no constant and no kept
answer, or all but such a term is right), or gains nothing over the reference, or where a problem
has no inputs and its kernels are needed in every call: KernelBench 3/28 attends across its batch,
gives the same answer to every image, NaN or not, and would refuse its own copy.
"""

from __future__ import annotations

from collections.abc import Iterator

from app.domain.evaluation import Evaluation
from app.domain.output_checks import Correctness
from app.domain.verdict import Finding, Label, Subject

GAINED, GAINED_PERHAPS = 1.05, 1.25
"""Speedup up to which a candidate gains nothing, and up to which it gains nothing if the interval
holds 1.0: a copy of the reference was measured as 1.13 [0.77, 2.47].  A kernel that leaves work out
is faster.
"""


class DegenerateProblem:
    """Keeps passes that were easy for the wrong reason out of datasets."""

    version = 8

    def detect(self, subject: Subject) -> Iterator[Finding]:
        """Only where the candidate passed: a wrong answer is wrong on any problem."""
        correctness = subject.evaluation.correctness
        if correctness is None or not subject.evaluation.correct:
            return
        if correctness.output_constant:
            summary = (
                "the reference gives the same answer for different inputs: a right answer proves"
                " nothing here"
            )
            yield self._finding(_weight(subject.evaluation), summary, correctness)
        elif found := correctness.telling_nulls:
            nulls = ", ".join(found)
            summary = (
                f"an answer that needs no computation is within tolerance ({nulls}): a right one"
                " proves nothing"
            )
            yield self._finding(_weight(subject.evaluation), summary, correctness)
        elif correctness.insensitive_to:
            names = ", ".join(correctness.insensitive_to)
            yield self._finding(
                Label.CLEAN, f"the reference's output does not depend on {names}", correctness
            )
        elif subject.evaluation.narrow_products and subject.evaluation.narrow_products.is_lost:
            summary = (
                "a term of the reference's answer is lost in its own rounding: an answer without"
                " that work is as right"
            )
            yield self._finding(Label.CLEAN, summary, correctness)

    def _finding(self, label: Label, summary: str, correctness: Correctness) -> Finding:
        evidence: dict[str, object] = {
            "calls": correctness.calls,
            "null_answers": list(correctness.telling_nulls),
            "insensitive_to": list(correctness.insensitive_to),
            "propagates_nonfinite": correctness.propagates_nonfinite,
        }
        return Finding(
            detector="degenerate_problem",
            version=self.version,
            label=label,
            summary=summary,
            evidence=evidence,
        )


def _weight(evaluation: Evaluation) -> Label:
    """Nothing is held against a candidate that computes: with NaN and infinities
    among the inputs, its answer has them where the reference's has.  Nor against one
    that is no faster than the reference.
    """
    computes = evaluation.correctness is not None and bool(
        evaluation.correctness.propagates_nonfinite
    )
    timing = evaluation.timing
    least = GAINED if timing is None or timing.ci_low > 1 else GAINED_PERHAPS
    gains = timing is None or timing.speedup > least
    computes = computes or _computes_without_inputs(evaluation)
    return Label.SUSPECT if gains and not computes else Label.CLEAN


def _computes_without_inputs(evaluation: Evaluation) -> bool:
    """Test whether a call without inputs depends on the candidate's kernels, and not on copies of
    an answer that is kept.  An answer of equal numbers needs no computation.
    """
    correctness, ablation = evaluation.correctness, evaluation.ablation
    if correctness is None or correctness.has_inputs or ablation is None:
        return False
    matter = ablation.attempted and not ablation.still_correct and not ablation.reason
    equal = {"zeros", "mean"} & {*correctness.null_answers}
    return matter and not ablation.copies_still_correct and not equal
