"""EVALUATE: the stages that involve the candidate's process, from loading it to its last call.

Those that decide whether it is right and how fast come first and are attributed to the candidate if
they fail; further tests of a candidate that passed follow.
"""

from __future__ import annotations

import math
from dataclasses import replace

from app.domain.backend import BACKENDS
from app.domain.evaluation import Status, Timing
from app.domain.evidence import Testimony
from app.domain.job import Job
from app.domain.source import device_branches
from workers.protocol import control_channel, problem_spec
from workers.referee import shortages
from workers.referee.comparison import correctness, usual_answers
from workers.referee.host import bandwidth
from workers.referee.probes import aot_compile, call_profile, narrow_products, perturbed_weights
from workers.referee.probes.ablation import FAST, ablate
from workers.referee.processes.process_handle import ProcessHandle
from workers.referee.processes.process_session import Session
from workers.referee.progress import Progress
from workers.referee.resources import Resources
from workers.referee.session import first_calls, memory_needs, setup, variant_calls
from workers.referee.session.call_runner import CallRunner
from workers.referee.session.context import EvaluationContext
from workers.referee.session.deadline import Deadline
from workers.referee.session.fault_attribution import (
    GPU_BRANCH,
    OTHER_ROUNDING,
    AttributeToCandidate,
    Fault,
    attribute_to_profiling,
    invalid,
    may_be_interpreter_fault,
)
from workers.referee.timing import device_time, event_timing, paired_benchmark, sizing, unpaired
from workers.referee.timing.quiet_host import QuietHost
from workers.referee.wrong_output import (
    describe,
    lacking_weights,
    most_informative,
    of_batch_statistics,
    of_tf32,
    tuned_while_adding,
)

COSTLY_CALLS = 5
"""Untimed calls if the expected outputs of a call take long to compute (KernelBench makes five
trials), with its inputs or later.  Timed calls are verified as well.
"""


def run(
    progress: Progress,
    reference: Session,
    candidate: ProcessHandle,
    spec: problem_spec.ProblemSpec,
    deadline: Deadline,
) -> None:
    """Run all stages that involve the candidate.  Its process ends afterwards in
    every case.  Raises Fault.
    """
    resources, session = progress.resources, Session(candidate)
    progress.cancellation.set_process(candidate.process)
    try:
        with AttributeToCandidate(progress.job, resources.device) as attribution:
            context = _load(progress, reference, session, spec, deadline)
            attribution.note_loaded()
            _benchmark(context, progress)
            _compare_products(context, progress)
            _profile(context, progress)
            _require_correct(context)
            _refuse_gpu_branch(context, progress)
            progress.note_launch_bound()
        _ablate(context, progress)
        progress.testimony = _without_warmup_launches(progress.testimony, context.runner.warmed)
        _perturb_weights(context, progress)
        _measure_device_time(context, progress)
        _try_nonfinite(context, progress)
    finally:
        progress.testimony = replace(
            progress.testimony, stdout=_printable(candidate.process.output)
        )
        progress.cancellation.set_process(None)
        resources.candidates.retire(candidate)


def _load(
    progress: Progress,
    reference: Session,
    session: Session,
    spec: problem_spec.ProblemSpec,
    deadline: Deadline,
) -> EvaluationContext:
    """Load the candidate into its process; returns the context of all further stages."""
    job, resources = progress.job, progress.resources
    with progress.stages.stage("compile"):
        setup.load(session, job, reference, spec, progress.seed, deadline, resources.device_lock)
    runner = progress.runner = CallRunner(
        reference, session, spec, progress.seed, deadline, resources.device_lock, _rule(job, spec)
    )
    return EvaluationContext(
        job=job,
        resources=resources,
        spec=spec,
        runner=runner,
        seed=progress.seed,
        cancellation=progress.cancellation,
    )


def _rule(job: Job, spec: problem_spec.ProblemSpec) -> correctness.Rule:
    """The rule for comparing outputs: the tolerances of the case, else those of the
    submission, else Assay's limits.
    """
    source = spec.case if spec.case is not None and spec.case.rtol is not None else job.options
    rtol, atol = source.rtol, source.atol
    tolerance = None if rtol is None or atol is None else (rtol, atol)
    return correctness.Rule(tolerance=tolerance, spread=spec.spread, usual_norms=spec.usual_norms)


def _benchmark(context: EvaluationContext, progress: Progress) -> None:
    """Make the untimed calls, then the timed blocks.  Every call of either kind is verified."""
    with progress.stages.stage("correctness"):
        guess_us, usual_sizes = _make_untimed_calls(context)
    if context.job.options.timing_budget_s <= 0:
        return
    budget, quiet_host = _timing_budget(context), _quiet_host(context.resources)
    with progress.stages.stage("timing"):
        if context.spec.case is not None:
            progress.unpaired_time = unpaired.run(
                context.runner, quiet_host, budget, guess_us.candidate_us
            )
            timing = None
        else:
            alone = not progress.shares_memory
            timing = paired_benchmark.run(context.runner, quiet_host, budget, guess_us, alone=alone)
    _require_correct(context)
    shortages.refuse(context, progress)
    if _is_faster(timing) and context.job.options.variants:
        with progress.stages.stage("correctness"):
            variant_calls.try_other_places(context.runner, usual_sizes)
        _require_correct(context)
    progress.timing = timing and context.resources.reference_history.compared(context.job, timing)
    if context.job.options.protocol == "kernelgym":
        with progress.stages.stage("events"):
            progress.timing = event_timing.added(progress.timing, context.runner, quiet_host)


def _is_faster(timing: Timing | None) -> bool:
    """Test whether a candidate is certainly so much faster that it is worth further checks."""
    return timing is not None and timing.ci_low > variant_calls.FASTER


def _timing_budget(context: EvaluationContext) -> sizing.TimingBudget:
    budget_s = context.job.options.timing_budget_s
    return sizing.TimingBudget(
        budget_s=budget_s,
        block_us=sizing.block_us(budget_s, context.resources.device.block_us),
        round_bytes=context.resources.device.round_bytes,
        floor_us=bandwidth.floor_us(context.spec.bytes_moved, context.resources.bytes_per_s),
    )


def _quiet_host(resources: Resources) -> QuietHost:
    return QuietHost(
        core_waker=resources.core_waker,
        health=resources.health,
        stopwatch=resources.stopwatch,
        cores=resources.quiet_cores,
    )


def _make_untimed_calls(
    context: EvaluationContext,
) -> tuple[sizing.Guess, list[usual_answers.AnswerSize]]:
    """Make the calls that are not timed; estimate the time of a call, and summarise the outputs.
    Raises Fault.
    """
    first_calls.make_first(context.runner)
    guess, usual_sizes = _make_first_calls(context)
    if context.job.options.variants:
        variant_calls.try_variants(context.runner, usual_sizes)
    _require_correct(context)
    return guess, usual_sizes


def _make_first_calls(
    context: EvaluationContext,
) -> tuple[sizing.Guess, list[usual_answers.AnswerSize]]:
    """Make some calls in a row; estimate the time of a call, and summarise the outputs.

    Inputs and outputs of these calls may be gigabytes and are freed on return."""
    job, resources, runner = context.job, context.resources, context.runner
    most = (
        min(COSTLY_CALLS, job.options.correctness_calls)
        if runner.has_slow_draws
        else job.options.correctness_calls
    )
    with resources.device_lock.shared():
        batch = runner.draw(max(1, min(most - 1, runner.in_block)))
        together = runner.try_calls(batch)
    _require_correct(context)
    with resources.device_lock.shared():
        with resources.device_lock.uncharged.working():
            # This comes first, while the calls' expected outputs are in memory.
            truth = first_calls.try_null_answers(runner, batch)
            usual_sizes = variant_calls.answer_sizes(truth)
        first_calls.check_determinism(runner, together)
        # A problem by cases has no reference to time.
        guess = sizing.guess(
            runner,
            together,
            resources.reference_history.last_us(job) if context.spec.case is None else math.inf,
        )
        return guess, usual_sizes


def _compare_products(context: EvaluationContext, progress: Progress) -> None:
    """Look at the errors of a candidate that gains for those of narrow products.  On the CPU device
    times say nothing of a GPU.  Raises Fault.
    """
    timing = progress.timing
    gains = timing is None or timing.ci_low > 1 or timing.speedup >= narrow_products.GAIN
    at_stake = gains or context.resources.device.precompiles
    asked = at_stake and not progress.cancellation.requested
    if not asked or not memory_needs.may_ask_of_products(context.spec):
        return
    with progress.stages.stage("products"):
        progress.narrow_products = narrow_products.check(context)
    _require_correct(context)


def _profile(context: EvaluationContext, progress: Progress) -> None:
    """Profile a call and, on a GPU, read the code of the candidate's kernels."""
    job, resources, runner = context.job, context.resources, context.runner
    with (
        progress.stages.stage("profile"),
        resources.device_lock.shared(),
        attribute_to_profiling(runner.deadline),
    ):
        on_gpu = not resources.device.precompiles
        full = job.wants_profiler if on_gpu else job.options.profile == "full"
        found = call_profile.profile(runner, context.spec, resources.bytes_per_s, full=full)
        progress.testimony, progress.profile, progress.launches = found
        if on_gpu and BACKENDS[job.backend].replaceable_launches and progress.testimony.launches:
            progress.codes = call_profile.codes(runner)


def _require_correct(context: EvaluationContext) -> None:
    """Raise Fault if an output of any call was wrong."""
    runner = context.runner
    if not runner.failed:
        return
    if may_be_interpreter_fault(context.job, context.resources.device):
        raise invalid(
            "not_verifiable_on_cpu",
            f"{OTHER_ROUNDING} ({describe(runner.failed[0], runner.record.rule, context.spec)})",
        )
    kind = (
        "stale_output"
        if any(check.stale_call is not None for check in runner.failed[0].outputs)
        else "wrong_output"
    )
    count = f"{len(runner.failed)} of {runner.record.calls} calls were wrong; "
    worst = most_informative(runner.failed)
    hint = lacking_weights(worst, runner.candidate.unmatched)
    hint += of_tf32(worst, context.job.candidate)
    hint += of_batch_statistics(worst, context.job.candidate, context.job.reference)
    if not context.resources.device.precompiles:
        hint += tuned_while_adding(worst, context.job.candidate)
    raise Fault(
        Status.INCORRECT, kind, count + describe(worst, runner.record.rule, context.spec) + hint
    )


def _refuse_gpu_branch(context: EvaluationContext, progress: Progress) -> None:
    """Raise Fault if nothing is known of the candidate's kernels: it launched none on the CPU
    device, and its source has another branch for inputs on a GPU.
    """
    job = context.job
    if (
        context.resources.device.precompiles
        and BACKENDS[job.backend].brings_kernels
        and not progress.testimony.launches
        and device_branches.asks_for_a_gpu(job.candidate)
    ):
        raise invalid("needs_gpu", GPU_BRANCH)


def _ablate(context: EvaluationContext, progress: Progress) -> None:
    """Test whether the candidate's Triton kernels affect its answer and, on the CPU device, whether
    they compile for a GPU.  Raises Fault if they do not compile.
    """
    if not BACKENDS[context.job.backend].replaceable_launches or not progress.testimony.launches:
        return
    notes = context.runner.candidate.handle.mailbox[
        control_channel.NOTES_AT : control_channel.NOTES_AT + control_channel.TABLE_BYTES
    ].rstrip(b"\0")
    at_stake = context.spec.case is not None or (
        progress.timing is not None and progress.timing.ci_high > 1
    )
    with progress.stages.stage("ablation"):
        progress.ablation = ablate(
            context,
            at_stake=at_stake,
            names=frozenset(
                launch.name
                for launch in progress.launches
                if launch.origin == BACKENDS[context.job.backend].origin
            ),
            fast=progress.timing is not None and progress.timing.ci_low >= FAST,
            own_share=progress.profile.coverage_time if progress.profile is not None else None,
        )
    if context.resources.device.precompiles:
        _precompile(context, progress, notes)


def _precompile(context: EvaluationContext, progress: Progress, notes: bytes) -> None:
    """Compile the launches in `notes` ahead of time for a GPU.  Raises Fault if one
    does not compile.
    """
    with progress.stages.stage("precompile"):
        progress.compiled = aot_compile.precompile(context.resources, context.job.candidate, notes)
    progress.codes = progress.compiled.codes
    refused = [kernel for kernel in progress.compiled.kernels if kernel.outcome == "failed"]
    if refused:
        first = refused[0]
        message = (
            f"{first.name} runs in the interpreter but does not compile for"
            f" {aot_compile.TARGET_NAME}: {aot_compile.reason(first.message)}"
        )
        if first.message == control_channel.OTHER_FUNCTION:
            message = f"{first.name} is {control_channel.OTHER_FUNCTION}"
        raise Fault(Status.COMPILE_ERROR, "gpu_compile", message, first.message)


def _without_warmup_launches(testimony: Testimony, calls: int) -> Testimony:
    """The testimony without the launches of warm-up calls, each of which launches as
    often as one call alone.
    """
    return replace(
        testimony, launches=max(0, testimony.launches - calls * testimony.launches_alone)
    )


def _perturb_weights(context: EvaluationContext, progress: Progress) -> None:
    """Test whether the candidate uses parameters that are constant when the model is
    constructed.  A slow candidate is tested as well: one that leaves weights out is wrong
    after training, whatever its speed.
    """
    if (
        not perturbed_weights.constant_names(context.spec, context.runner.candidate)
        or progress.cancellation.requested
    ):
        return
    if may_be_interpreter_fault(context.job, context.resources.device):
        return
    with progress.stages.stage("weights"):
        calls = context.runner.record.calls if _is_faster(progress.timing) else 0
        progress.fresh_weights = perturbed_weights.check(context, progress.ablation, calls)


def _measure_device_time(context: EvaluationContext, progress: Progress) -> None:
    """Measure the speedup by the device's own time, if the job asks for it and the
    pair was timed.
    """
    if (
        progress.timing is None
        or not context.job.options.device_time
        or progress.cancellation.requested
    ):
        return
    with progress.stages.stage("device_time"):
        progress.timing = device_time.added(
            progress.timing, context, _quiet_host(context.resources), _timing_budget(context)
        )


def _try_nonfinite(context: EvaluationContext, progress: Progress) -> None:
    """Record how the candidate treats NaN and infinity: its process's last call."""
    if context.job.options.variants and not progress.cancellation.requested:
        with progress.stages.stage("nonfinite"):
            variant_calls.try_nonfinite(context.runner)


def _printable(output: bytes) -> str:
    return output.decode("utf-8", "replace").replace("\x00", "\ufffd")
