"""EVALUATE: error messages for wrong outputs."""

from __future__ import annotations

import math
import re

from app.domain.output_checks import (
    NARROW_PRODUCTS,
    OutputCheck,
    Trial,
    may_be_of_narrow_products,
)
from workers.protocol import layout
from workers.protocol.problem_spec import ProblemSpec
from workers.referee.comparison import correctness

OTHER_INPUTS = "on inputs with other values than get_inputs() gives"

NARROW = (
    "; products in TF32, which Triton's tl.dot takes for float32 unless input_precision is given,"
    " or in half precision err by about as much, and so do approximations of erf and tanh"
)

TF32 = (
    '; products of tl.dot in TF32, for float32 unless input_precision="ieee" is given, or of 16-bit'
    " operands err by about as much"
)

LACKING = "; weights of the reference that ModelNew has no place for: {}"

REPEATED = (
    "; @triton.autotune runs a kernel several times in its first call: one that adds to its"
    " output (tl.atomic_add) needs reset_to_zero=[that argument's name]"
)

BATCH = (
    "; the reference's BatchNorm is in training mode: it takes mean and variance of each batch"
    " in place of running_mean and running_var"
)

ROUNDING = 1.2e-3
"""Largest relative L2 error of rounding to TF32 or float16: parameters that the
candidate drew itself err by more.
"""
ADDED = 0.5
"""Least relative L2 error that repeated additions may explain: each adds about 1."""

_TUNED, _ADDING, _CLEARED = (
    b"autotune",
    b"atomic_",
    (b"reset_to_zero", b"restore_value", b"pre_hook"),
)
_PRODUCT, _NARROW = re.compile(rb"\bdot\("), re.compile(rb"float16|\bhalf\b")
_IN_FULL = re.compile(rb"\bieee\b|allow_tf32\s*=\s*False")


def most_informative(failed: list[Trial]) -> Trial:
    """The first call with elements that were never written (only later calls can
    show them); else the first call.
    """
    return next(
        (trial for trial in failed if any(check.unwritten for check in trial.outputs)), failed[0]
    )


def describe(trial: Trial, rule: correctness.Rule, spec: ProblemSpec | None = None) -> str:
    """Position and error of the first wrong output of a call, for people.

    `spec`: specification of a problem whose answer may include inputs, as its last outputs.
    """
    check = next(output for output in trial.outputs if not output.ok)
    unusual = f" {OTHER_INPUTS}" if trial.variant != "own" else ""
    changed = ", ".join(map(str, trial.inputs_changed))
    overwritten = f"; it has overwritten input {changed}" if changed else ""
    return (
        f"call {trial.call}{unusual}, {_name(check.index, trial, spec)}"
        f" ({check.dtype}, {list(check.shape)}): "
        f"{_difference(check, rule)}{_worst(check, trial)}{overwritten}"
    )


def _worst(check: OutputCheck, trial: Trial) -> str:
    """The worst element; empty on changed inputs, whose values are not told."""
    if check.worst is None or trial.variant != "own":
        return ""
    index = ", ".join(map(str, check.worst.index))
    return f"; worst at [{index}]: expected {check.worst.expected}, got {check.worst.got}"


def _name(index: int, trial: Trial, spec: ProblemSpec | None) -> str:
    """Name of an output, or of an input that the reference changes."""
    compared = spec.compared_inputs if spec is not None else ()
    place = index - (len(trial.outputs) - len(compared))
    if spec is None or place < 0:
        return f"output {index}"
    strided = list(layout.leaves(spec.inputs))[compared[place]]["stride"] is not None
    order = ", in the order of its memory" if strided else ""
    return f"input {compared[place]}, which the reference changes, after the call{order}"


def lacking_weights(trial: Trial, unmatched: str) -> str:
    """Hint about weights that have no place in the candidate, if they may explain the error.
    `unmatched`: their names, or "".  A candidate that draws the same weights under other
    names errs by rounding at most.
    """
    errors = [check.rel_l2 for check in trial.outputs if not check.ok]
    if not unmatched or all(error is not None and error <= ROUNDING for error in errors):
        return ""
    return LACKING.format(unmatched)


def tuned_while_adding(trial: Trial, source: bytes) -> str:
    """Hint about a first call in which Triton's autotuner ran a kernel several times that adds
    to its output, if that may explain the error.
    """
    errors = [check.rel_l2 for check in trial.outputs if not check.ok]
    adds = _TUNED in source and _ADDING in source and not any(name in source for name in _CLEARED)
    if trial.call or not adds or not any(error is None or error > ADDED for error in errors):
        return ""
    return REPEATED


def of_tf32(trial: Trial, source: bytes) -> str:
    """Hint about a source that takes tl.dot's default for products of fp32, or has operands of 16
    bits, where the error is too small to tell by itself: roundings cancel in sums whose terms have
    one sign.
    """
    errors = [check.rel_l2 for check in trial.outputs if not check.ok and check.dtype == "float32"]
    is_narrow = _PRODUCT.search(source) and (_NARROW.search(source) or not _IN_FULL.search(source))
    if not is_narrow or not any(error and error < NARROW_PRODUCTS[0] for error in errors):
        return ""
    return TF32


def of_batch_statistics(trial: Trial, source: bytes, reference: bytes) -> str:
    """Hint about a source that reads the running statistics of a normalisation, which a reference
    in training mode does not.
    """
    errors = [check.rel_l2 for check in trial.outputs if not check.ok]
    reads = b"running_mean" in source and b"BatchNorm" in reference and b"eval()" not in reference
    return BATCH if reads and any(error and error > ROUNDING for error in errors) else ""


def _difference(check: OutputCheck, rule: correctness.Rule) -> str:
    unwritten = f"{check.unwritten:,} elements were never written; " if check.unwritten else ""
    return unwritten + _error(check, rule)


def _error(check: OutputCheck, rule: correctness.Rule) -> str:
    if check.stale_call is not None:
        return f"it is the answer to call {check.stale_call}"
    if check.nonfinite_mismatches:
        return (
            f"{check.nonfinite_mismatches:,} elements are NaN or infinite where the reference is"
            " not, or the reverse"
        )
    if check.differing is not None:
        more = (
            f", besides {check.ties:,} that point at equal values, which is right"
            if check.ties
            else ""
        )
        return f"{check.differing:,} of {math.prod(check.shape):,} elements differ{more}"
    if check.beyond is not None and rule.tolerance is not None:
        rtol, atol = rule.tolerance
        return (
            f"{check.beyond:,} of {math.prod(check.shape):,} elements are off by more than {atol:g}"
            f" + {rtol:g}·|R|"
        )
    if check.wrong_slice is not None:
        along, index = check.wrong_slice
        return (
            f"within its limits as a whole, and slice {index} of dimension {along} is off by half"
            " of its own size"
        )
    if check.kept_input is not None:
        return (
            f"within its limits as a whole, and off by half of the small change that the reference"
            f" makes to input {check.kept_input}"
        )
    if check.rel_l2 is None or check.max_norm is None:
        return "the error is not finite"
    hint = NARROW if may_be_of_narrow_products(check.dtype, check.rel_l2) else ""
    return (
        f"relative error {check.rel_l2:.2e} (at most {check.rel_l2_limit:.2e}), "
        f"largest error {check.max_norm:.2e} × rms (at most {check.max_norm_limit:.2e}){hint}"
    )
