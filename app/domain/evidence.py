"""Evidence in addition to correctness and times: replaced kernels, other weights,
compiled kernels.  Plain data.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Ablation:
    """Verified calls with the candidate's kernels replaced by something that does nothing."""

    attempted: bool
    reason: str
    """Reason why it was not attempted or ended without an answer; `by source` where the result
    is that of a fresh process given the source without its kernels
    (app.domain.source.source_ablation).  Else empty.
    """
    launches_skipped: int = 0
    still_correct: bool | None = None
    """True means that the kernels do not matter."""
    copies_still_correct: bool | None = None
    """True if the answer was correct with plain copies in place of the kernels; None
    if not tried.
    """
    replays_still_correct: bool | None = None
    """True if the answer was correct with the kernels' outputs for other inputs;
    None if not tried.
    """
    kept_share: float | None = None
    """Share of the outputs' elements in slices (rows, columns, channels) that stay right without
    the kernels; None if not looked at.
    """
    mapped_bytes: int | None = None
    """Work of the library in a call, as bytes that a GPU moves in the same time, if the answer was
    correct with those launches alone of which each result follows from a few elements of tensors
    which the library had computed; None if not looked at, or if other launches matter.
    """
    mapped_before: bool = False
    """True if launches were made, too, of which each result follows from a few elements of inputs.
    """
    mapped_within: bool = False
    """True if the library computes with the results of those launches."""


LEFT_OUT = "left out"
"""`NarrowProducts.format` of terms that are left out."""

SCALED = "16 bits or fewer, scaled"
"""`NarrowProducts.format` of factors that are scaled, by any number, before they are rounded."""


@dataclass(frozen=True, kw_only=True)
class NarrowProducts:
    """Errors of the candidate's answers beside those that factors of a narrower type would cause in
    the reference's products of fp32, or leaving out terms of its answer, where a comparison does
    not show these.
    """

    found: bool
    """True if its errors hold the predicted ones, and the reference's own do not."""
    format: str
    """Type of the factors: `float16 or tf32`, `bfloat16` or `tf32, cut off`; or SCALED or
    LEFT_OUT.
    """
    parts: str
    """Parts of a product in that type: `first`, `second` or `both` factors, or `all`, with the
    addend and the result; `largest`: both factors of the largest one; `result` alone.
    """
    output: int
    share: float
    """Part of the predicted errors in its own (the slope of a regression): 1 if all factors are
    narrow, 0 if none is.  Of SCALED: in multiples of 1/8192 of the products, where most elements of
    the inputs have one of two magnitudes (a root mean square over calls).
    """
    significance: float
    """Correlation of both, in standard deviations from none; of SCALED: the share."""
    control_significance: float | None
    """The same for errors of random signs, as a root mean square; None if it was not needed.  Of
    SCALED: the share on the problem's own inputs.
    """
    own_share: float
    """`share` of the reference in its own precision."""
    calls: int
    """Calls; of LEFT_OUT none if the term is lost in the reference's own rounding on all inputs."""
    elements: int
    """Elements of the output, over all calls."""

    @property
    def is_lost(self) -> bool:
        """True if a term of the reference's answer shows on no inputs."""
        return self.format == LEFT_OUT and not self.calls


@dataclass(frozen=True, kw_only=True)
class CompiledKernel:
    """One kernel compiled ahead of time for a GPU that this machine need not have."""

    name: str
    signature: str
    outcome: str
    """`ok`, `failed` (the compiler refused it) or `not_attempted`."""
    message: str = ""
    registers: int | None = None
    spill_bytes: int | None = None
    shared_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class KernelCode:
    """Compiled code of a kernel, as reported by the process that compiled it."""

    kernel: str
    form: str
    """Triton's name for it: `ttir`, `ttgir`, `ptx`."""
    text: str


@dataclass(frozen=True, kw_only=True)
class Traces:
    """Large records of an evaluation, for people; nothing is judged by them."""

    timeline: bytes
    """Chrome-trace JSON."""
    codes: tuple[KernelCode, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Testimony:
    """Statements of the candidate's process about itself.  Used only as evidence against it."""

    launches: int = 0
    """Launches of kernels that it brought, over all calls."""
    launches_alone: int = 0
    """Launches in the profiled call, which runs alone."""
    failures: tuple[str, ...] = ()
    """Failures of its kernels and extensions that its source caught, where none of its kernels ran
    in the profiled call.
    """
    output_types: tuple[str, ...] = ()
    """Python types of the outputs that were refused."""
    stdout: str = ""
    """Standard output and error, capped."""
    libraries: tuple[str, ...] = ()
    """File names of shared libraries that were mapped while the candidate ran and
    not before it was loaded.
    """
