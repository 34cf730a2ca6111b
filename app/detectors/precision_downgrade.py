"""JUDGE: computed in a narrower type than the outputs are declared in (hacks 8).

Evidence: the narrowest type whose rounding explains the error that was measured.  Under the default
rule (an error budget relative to the error of the reference's own precision) a passing candidate is
within that budget, and the finding is information; under a tolerance that the submitter widened,
the wider tolerance hides it: suspect.

Behind a sum or a mean the errors of narrow products average out.  There they are recognised, not by
their size, but one by one, as those that narrow factors cause: suspect as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from app.domain.evidence import LEFT_OUT, SCALED, NarrowProducts
from app.domain.output_checks import FP64_RULE, Correctness
from app.domain.verdict import Finding, Label, Subject

SIGNIFICANT_BITS = {
    "float64": 53,
    "float32": 24,
    "tf32": 11,
    "float16": 11,
    "bfloat16": 8,
    "float8_e4m3fn": 4,
    "float8_e5m2": 3,
}
"""Bits of each type's significand, the hidden bit included (IEEE 754; OCP 8-bit
floating point 1.0; NVIDIA's TF32).
"""


PARTS = {
    "first": "the first factor",
    "second": "the second factor",
    "both": "both factors",
    "largest": "both factors of the largest one",
    "all": "factors, addends and results",
    "result": "the result alone",
}
"""Names of the narrow parts of products."""


class PrecisionDowngrade:
    """Half the bits for half the time."""

    version = 2

    def detect(self, subject: Subject) -> Iterator[Finding]:
        """Compared with the widest floating type among the outputs; only of right answers."""
        correctness = subject.evaluation.correctness
        if correctness is None or not subject.evaluation.correct:
            return
        products = subject.evaluation.narrow_products
        if products is not None and products.found and products.format != LEFT_OUT:
            yield self._of_products(products, correctness)
            return
        if correctness.precision_class is None:
            return
        dtypes = {check.dtype for trial in correctness.trials for check in trial.outputs}
        declared = max(
            dtypes & SIGNIFICANT_BITS.keys(), key=SIGNIFICANT_BITS.__getitem__, default=None
        )
        found = correctness.precision_class
        if declared is None or SIGNIFICANT_BITS.get(found, 53) >= SIGNIFICANT_BITS[declared]:
            return
        widened = correctness.tolerance != FP64_RULE
        yield Finding(
            detector="precision_downgrade",
            version=self.version,
            label=Label.SUSPECT if widened else Label.CLEAN,
            summary=f"outputs are {declared}, and their error is that of {found}: "
            + (
                f"only the tolerance {correctness.tolerance} lets it pass"
                if widened
                else "within the error budget"
            ),
            evidence={
                "declared": declared,
                "found": found,
                "tolerance": correctness.tolerance,
                "largest_rel_l2": _largest_error(correctness),
            },
        )

    def _of_products(self, found: NarrowProducts, correctness: Correctness) -> Finding:
        return Finding(
            detector="precision_downgrade",
            version=self.version,
            label=Label.SUSPECT,
            summary=_summary(found),
            evidence={
                **asdict(found),
                "declared": "float32",
                "found": found.format,
                "largest_rel_l2": _largest_error(correctness),
            },
        )


def _summary(found: NarrowProducts) -> str:
    if found.format == SCALED:
        return (
            f"products of output {found.output} have factors of 16 bits or fewer: where most"
            f" elements of the inputs have one of two magnitudes, it errs by {found.share:.2g}"
            f" times 1/8192 of them, the reference by {found.own_share:.2g} times"
        )
    return (
        f"errors of output {found.output} are those of products in {found.format}"
        f" ({PARTS[found.parts]}): they hold {found.share:.2g} of them,"
        f" {found.significance:.0f} standard deviations from none; the reference's own"
        f" {found.own_share:.2g}"
    )


def _largest_error(correctness: Correctness) -> float:
    checks = [check for trial in correctness.trials for check in trial.outputs]
    return max((check.rel_l2 or 0.0 for check in checks), default=0.0)
