"""EVALUATE: the evaluation, built from the progress of a job."""

from __future__ import annotations

from dataclasses import replace

from app.domain.evaluation import CaseOutcome, Environment, Evaluation, ProblemMemory, Status
from app.domain.output_checks import FP64_RULE
from workers.protocol import precision_flags, problem_spec
from workers.referee.progress import Progress
from workers.referee.session.fault_attribution import Fault


def conclude(progress: Progress, fault: Fault | None) -> Evaluation:
    """The evaluation.  If a fault ended the job, the evaluation has the fault and
    everything measured before it.
    """
    environment = progress.resources.environment
    assert environment is not None
    passed = fault is None
    return Evaluation(
        status=fault.status if fault else Status.PASSED,
        error=fault.error if fault else None,
        environment=_environment(environment, progress),
        seed=progress.seed.hex(),
        correctness=(
            progress.runner.record.correctness()
            if progress.runner and progress.runner.record.calls
            else None
        ),
        timing=progress.timing if passed else None,
        profile=progress.profile,
        ablation=progress.ablation,
        fresh_weights=progress.fresh_weights,
        narrow_products=progress.narrow_products,
        cases=_outcome(progress, fault),
        compiled_kernels=progress.compiled.kernels if progress.compiled else (),
        testimony=progress.testimony,
        stage_ms=progress.stages.milliseconds(),
        operators=progress.spec.operators if progress.spec else None,
        memory=_memory(progress.spec) if progress.spec else None,
    )


def _memory(spec: problem_spec.ProblemSpec) -> ProblemMemory:
    peaks = spec.peaks
    return ProblemMemory(
        input_bytes=spec.input_bytes,
        output_bytes=spec.output_bytes,
        parameter_bytes=spec.parameter_bytes,
        call_bytes=peaks.call_bytes or None,
        truth_bytes=peaks.truth_bytes or None,
    )


def _environment(known: Environment, progress: Progress) -> Environment:
    """The device's environment with the precision flags that the problem sets."""
    return (
        replace(known, numerics=precision_flags.described(progress.spec.numerics))
        if progress.spec
        else known
    )


def _outcome(progress: Progress, fault: Fault | None) -> tuple[CaseOutcome, ...]:
    """Outcome of this case if the problem has cases; otherwise empty."""
    if progress.spec is None or progress.spec.case is None:
        return ()
    case, own = progress.spec.case, None if fault else progress.unpaired_time
    record = progress.runner.record.correctness() if progress.runner else None
    return (
        CaseOutcome(
            index=case.index,
            of=case.of,
            name=case.name,
            status=fault.status if fault else Status.PASSED,
            message=fault.error.message if fault else "",
            calls=record.calls if record else 0,
            failed_calls=record.failed_calls if record else 0,
            tolerance=record.tolerance if record else FP64_RULE,
            candidate_us=own.us if own else None,
            candidate_us_low=own.low if own else None,
            candidate_us_high=own.high if own else None,
        ),
    )
