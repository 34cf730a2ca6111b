"""EVALUATE: speedup over the reference under torch.compile, if the job asks for it.

A baseline is measured like a candidate: its source is the reference's with a class at its end that
compiles it; sandbox, inputs, verification and the benchmark against the eager reference are those
of every candidate.  The candidate's speedup over the baseline is the quotient of both speedups,
each with its own blocks of the reference; their intervals are combined in quadrature.

Compiling takes long, so each baseline is measured once for all candidates of a problem, with its
own deadlines.  A baseline that cannot be measured has a reason and counts against no candidate.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from app.domain.evaluation import Evaluation, Status, Timing
from app.domain.ids import sha256
from app.domain.job import (
    BASELINE_CALL_TIMEOUT_S,
    BASELINE_DEADLINE_S,
    BASELINE_GRACE_S,
    Job,
    JobOptions,
)
from app.domain.other_timings import ERROR_CHARS, BaselineTiming
from workers.referee.cancellation import Cancellation
from workers.referee.timing import estimators

MODES = {"compile": None, "compile-max-autotune": "max-autotune-no-cudagraphs"}
"""Baseline → mode of torch.compile.  CUDA graphs are excluded: they return the same memory in every
call, and a block's outputs are read after its last call.
"""

KEPT = 512
"""Results that are kept: two for each problem of KernelBench's levels 1 to 3."""

MEMORY_BYTES = 8 << 30
"""Address space on the CPU device: that of a reference, because the compiler is loaded as well."""

_COMPILED = """

import torch as _torch_for_baseline


class {entry_point}New({entry_point}):
    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.forward = _torch_for_baseline.compile(self.forward, mode={mode!r})
"""

Evaluate = Callable[[Job], Evaluation]


@dataclass(frozen=True, kw_only=True)
class BaselineResult:
    """Result of a baseline's measurement, or the reason why there is none."""

    over_eager: estimators.Interval | None = None
    """Log-ratio of the eager reference to the baseline; None if there is an error."""
    baseline_us: float = 0.0
    error: str | None = None
    lasting: bool = True
    """True if another attempt would have the same result, and so is not made."""


@dataclass(kw_only=True)
class _Slot:
    """Result slot of one problem's baseline; the thread that measures it holds the lock."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    found: BaselineResult | None = None


class Baselines:
    """Recent measurements, by reference, entry point and name.  Thread-safe."""

    def __init__(self, kept: int = KEPT) -> None:
        """Without measurements at first."""
        self._kept = kept
        self._lock = threading.Lock()
        self._slots: OrderedDict[str, _Slot] = OrderedDict()

    def get(self, key: str, measure: Callable[[], BaselineResult], wait_s: float) -> BaselineResult:
        """The kept result, or that of `measure`.  While another thread measures, waits for its
        result up to `wait_s`. Exceptions of `measure` pass through, and nothing is kept.
        """
        with self._lock:
            slot = self._slots.setdefault(key, _Slot())
            self._slots.move_to_end(key)
            while len(self._slots) > self._kept:
                self._slots.popitem(last=False)
        if not slot.lock.acquire(timeout=wait_s):
            return BaselineResult(
                error=f"another evaluation was still measuring it after {wait_s:g} s", lasting=False
            )
        try:
            if slot.found is not None:
                return slot.found
            found = measure()
            slot.found = found if found.lasting else None
            return found
        finally:
            slot.lock.release()


def added(
    evaluation: Evaluation,
    job: Job,
    known: Baselines,
    evaluate: Evaluate,
    cancellation: Cancellation,
) -> Evaluation:
    """The evaluation with the baselines that its job asks for, if it passed and was timed.

    `evaluate` evaluates any job on this device, until cancelled; its exceptions pass through."""
    timing = evaluation.timing
    if timing is None or not job.options.baselines:
        return evaluation
    began = time.monotonic()
    compared = tuple(
        compare(name, timing, _find(job, name, known, evaluate, cancellation))
        for name in job.options.baselines
    )
    took_ms = (time.monotonic() - began) * 1000
    stage_ms = {
        **evaluation.stage_ms,
        "baselines": took_ms,
        "total": evaluation.stage_ms["total"] + took_ms,
    }
    return replace(evaluation, timing=replace(timing, baselines=compared), stage_ms=stage_ms)


def _find(
    job: Job, name: str, known: Baselines, evaluate: Evaluate, cancellation: Cancellation
) -> BaselineResult:
    def measure() -> BaselineResult:
        found = _found(evaluate(_task(job, name)))
        # A cancelled measurement may have failed because of the cancellation.
        return replace(found, lasting=found.lasting and not cancellation.requested)

    key = sha256(b"\0".join([job.reference, job.entry_point.encode(), name.encode()]))
    return known.get(key, measure, BASELINE_DEADLINE_S + BASELINE_GRACE_S)


def compare(name: str, timing: Timing, found: BaselineResult) -> BaselineTiming:
    """The candidate's speedup over a baseline, from the speedups of both over the
    eager reference.
    """
    if found.over_eager is None:
        return BaselineTiming(name=name, error=found.error)
    ratio = estimators.difference(_log_speedup(timing), found.over_eager)
    return BaselineTiming(
        name=name,
        speedup=math.exp(ratio.centre),
        ci_low=math.exp(ratio.low),
        ci_high=math.exp(ratio.high),
        baseline_us=found.baseline_us,
    )


def _log_speedup(timing: Timing) -> estimators.Interval:
    centre, low, high = map(math.log, (timing.speedup, timing.ci_low, timing.ci_high))
    return estimators.Interval(centre=centre, low=low, high=high)


def compiled(reference: bytes, entry_point: str, name: str) -> bytes:
    """Source of a candidate that is the reference under torch.compile: a subclass, so that
    constructor arguments and names of parameters and buffers stay the same.
    """
    return reference + _COMPILED.format(entry_point=entry_point, mode=MODES[name]).encode()


def _task(job: Job, name: str) -> Job:
    """The job that measures a baseline.  It has none of the candidate's options, since other
    candidates will use the result.
    """
    options = JobOptions(
        deadline_s=BASELINE_DEADLINE_S,
        call_timeout_s=BASELINE_CALL_TIMEOUT_S,
        memory_bytes=MEMORY_BYTES,
        variants=False,
    )
    return replace(
        job,
        candidate=compiled(job.reference, job.entry_point, name),
        backend="torch",
        options=options,
    )


def _found(evaluation: Evaluation) -> BaselineResult:
    """The baseline's result, from an evaluation of the compiled reference."""
    if evaluation.timing is not None:
        return BaselineResult(
            over_eager=_log_speedup(evaluation.timing), baseline_us=evaluation.timing.candidate_us
        )
    assert evaluation.error is not None
    ended = str(evaluation.status).replace("_", " ")
    error = f"{ended}: {evaluation.error.message}"[:ERROR_CHARS]
    return BaselineResult(error=error, lasting=evaluation.status is not Status.INVALID)
