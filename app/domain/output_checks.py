"""Correctness of an evaluation: checks of outputs, and the record of its calls."""

from __future__ import annotations

import math
from dataclasses import dataclass

FP64_RULE = "fp64"
"""Name of Assay's rule for outputs: as near to fp64 as the reference is in its own precision."""
NARROW_PRODUCTS = (1e-4, 3e-3)
"""Relative L2 errors of fp32 outputs between which operands of products are likely to have been
rounded to TF32 or half precision: one product errs by 2e-4 to 3e-4, published chains of three by
1.5e-3 (H200).
"""


def may_be_of_narrow_products(dtype: str, rel_l2: float | None) -> bool:
    """Test whether an output errs as if its products had been in TF32 or half precision.  Triton's
    `tl.dot` takes TF32 for fp32 operands by default; PyTorch does not.
    """
    lowest, highest = NARROW_PRODUCTS
    return dtype == "float32" and rel_l2 is not None and lowest <= rel_l2 <= highest


@dataclass(frozen=True, kw_only=True)
class Element:
    """An element of an output, with its expected value.  Values are texts: they may
    be NaN, infinite or complex.
    """

    index: tuple[int, ...]
    """Position in the output's shape; empty for an output without dimensions."""
    expected: str
    got: str


@dataclass(frozen=True, kw_only=True)
class OutputCheck:
    """One output tensor of one call against the fp64 reference."""

    index: int
    dtype: str
    shape: tuple[int, ...]
    ok: bool
    rel_l2: float | None
    """‖x − R‖ / ‖R‖ with R the fp64 reference; None when not finite."""
    rel_l2_limit: float
    max_norm: float | None
    """max|x − R| / rms(R)."""
    max_norm_limit: float
    nonfinite_mismatches: int
    """Positions where one side alone is finite, or has another infinity."""
    unwritten: int
    """Elements that still hold the poison written before the call."""
    stale_call: int | None
    """Earlier call that this answer belongs to, if to one."""
    beyond: int | None = None
    """Elements that differ from R by more than the tolerance allows that decided here
    (Correctness.tolerance); None where the default rule did, with the limits above.
    """

    differing: int | None = None
    """Wrong elements of an exact output (whole numbers, truth values)."""
    ties: int = 0
    """Elements that point at another place of an equal value, which is right."""
    close: int = 0
    """Elements decided by rounding: right, too."""
    worst: Element | None = None
    """The element furthest beyond its limit, in a wrong output without unwritten
    ones; None if it was not sought.
    """
    wrong_slice: tuple[int, int] | None = None
    """Dimension and index of a slice that is wrong by itself, in an output that is
    right as a whole.
    """
    kept_input: int | None = None
    """Input that hardly changes in the right answer, where an output that is right as a whole
    leaves this change out.
    """


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One call of the candidate, verified."""

    call: int
    seed: str
    """Secret seed of its inputs, hexadecimal."""
    ok: bool
    outputs: tuple[OutputCheck, ...]
    inputs_changed: tuple[int, ...] = ()
    """Inputs with bytes that differ after the call although the reference leaves them alone."""
    late_writes: tuple[int, ...] = ()
    """Outputs with bytes that changed after the candidate had reported that it was done."""
    case: str = ""
    """Its name, of a problem by cases."""
    variant: str = "own"
    """Change made to the problem's own inputs: `own` (nothing), `scaled`, `heavy_tailed`,
    `sign_mixed`, `sparse`, `constant_rows`, `nonfinite`, `edges`, `mild`, `resampled`, `redrawn`,
    `reaching`, `signed`, `named`, `unsorted`, `held`, `diagonal`, `stretched`, `local`, `partly`,
    `aligned`, `lasting`; only variants inside the problem's domain are used, see
    Correctness.excused.
    """


@dataclass(frozen=True, kw_only=True)
class PeerRule:
    """Result of another evaluator's rule for the same outputs: reported, without
    effect on the status.
    """

    name: str
    """`allclose_1e-2` (KernelBench, KernelGYM), `allclose_1e-4`."""
    passed_calls: int
    calls: int


@dataclass(frozen=True, kw_only=True)
class Correctness:
    """All verified calls, timed ones included."""

    calls: int
    failed_calls: int
    trials: tuple[Trial, ...]
    """The first calls and every call that is notable, capped."""
    mode: str
    """`train` as declared, or `eval` because the reference is random in train mode."""
    has_inputs: bool = True
    """False for a problem without inputs."""
    output_constant: bool = False
    """The reference gave the same output for every seed: the problem is degenerate."""
    deterministic: bool | None = None
    """True if the candidate gave the same bytes twice for the same inputs; None if
    that was not tested.
    """
    propagates_nonfinite: bool | None = None
    """True if NaN and infinities came out where the reference has them; never
    counted against the candidate.
    """
    precision_class: str | None = None
    """Narrowest dtype with roundings that explain the candidate's error: `float64`,
    `float32`, `tf32`, `bfloat16` …
    """
    peer_rules: tuple[PeerRule, ...] = ()
    tolerance: str = FP64_RULE
    """FP64_RULE, or `rtol=…,atol=…` where the submitter asked for one."""
    truth: str = "fp64"
    """Computation of the expected outputs: `fp64`; `fp64, casts lifted` where the problem's code
    asks for narrower types; `fp32, casts lifted, TF32 off` or `the reference's own precision`
    where it does not run in fp64.
    """
    excused: tuple[str, ...] = ()
    """Variants of the inputs on which no answer had to be right, because the reference shows that
    they are outside the problem's domain: `scaled: the reference's answer is 7.0e+17 times as large
    as on the problem's own inputs`.  With `planned`: errors while inputs for this reference were
    sought, and the size of inputs that are too large for that.
    """
    null_answers: tuple[str, ...] = ()
    """Trivial answers within tolerance: `zeros`, `mean`, `another_call`."""
    near_calls: int = 0
    """Calls that were not compared with their expected outputs, because they are so near
    the reference's own outputs that no error which it has shown puts them beyond the
    limits (the triangle inequality).
    """
    own_truth_calls: int = 0
    """Calls compared with the reference's own outputs instead of `truth`, because
    device memory did not hold the computation of the latter.  Applies to problems whose
    calls are evaluated one at a time.
    """
    insensitive_to: tuple[str, ...] = ()
    """Inputs (`input 1`) and parameters (`conv.bias`) that were drawn anew without
    moving the reference's output.
    """

    @property
    def telling_nulls(self) -> tuple[str, ...]:
        """Null answers that say something: of an output with one element, such as a loss, the mean
        is the answer itself.
        """
        outputs = self.trials[0].outputs if self.trials else ()
        single = bool(outputs) and all(math.prod(check.shape) == 1 for check in outputs)
        return tuple(name for name in self.null_answers if not (single and name == "mean"))
