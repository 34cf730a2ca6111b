"""EVALUATE: one job from source to Evaluation.

What the candidate does wrong ends as a status; what the problem does wrong as `invalid`; what
we do wrong as an exception."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field, replace

from app.domain import ablation
from app.domain.evaluation import (
    Ablation,
    Evaluation,
    EvaluationError,
    OutputCheck,
    Status,
    Testimony,
    Timing,
    Trial,
)  # fmt: skip
from app.domain.job import Job
from app.domain.profile import KernelRow, Profile
from workers import spec, wire
from workers.referee import compare, contest, precompile, roofline
from workers.referee.cancel import Cancellation
from workers.referee.host import Host
from workers.referee.party import FailedError, Party, Seat
from workers.referee.stages import Stages
from workers.referee.trials import REFERENCE_TIMEOUT_S, Deadline, ReferenceFailedError, Trials
from workers.sandbox import toolchain
from workers.sandbox.spawn import Ended, TimedOut
from workers.wire import Command, Outcome

_STATUS = {
    Outcome.NO_ENTRY_POINT: Status.COMPILE_ERROR, Outcome.SYNTAX_ERROR: Status.COMPILE_ERROR,
    Outcome.IMPORT_FAILED: Status.COMPILE_ERROR, Outcome.LOAD_FAILED: Status.COMPILE_ERROR,
    Outcome.CONSTRUCT_FAILED: Status.RUNTIME_ERROR, Outcome.CALL_FAILED: Status.RUNTIME_ERROR,
    Outcome.OUT_OF_MEMORY: Status.OUT_OF_MEMORY, Outcome.UNSUPPORTED: Status.CRASHED,
    Outcome.WRONG_TYPE: Status.INCORRECT, Outcome.WRONG_STRUCTURE: Status.INCORRECT,
    Outcome.WRONG_SHAPE: Status.INCORRECT, Outcome.WRONG_DTYPE: Status.INCORRECT,
}  # fmt: skip
_SIGXCPU = 24


class Fault(Exception):  # noqa: N818 (it is not an error of ours)
    """Why an evaluation ends before it has a speedup."""

    def __init__(self, status: Status, kind: str, message: str, log: str = "") -> None:
        """See EvaluationError."""
        super().__init__(message)
        self.status = status
        self.error = EvaluationError(kind=kind, message=message, log=log)


@dataclass(kw_only=True)
class Progress:
    """What is known so far; an evaluation can end at any point with what there is."""

    seed: bytes
    stages: Stages
    cancellation: Cancellation
    trials: Trials | None = None
    timing: Timing | None = None
    profile: Profile | None = None
    ablation: Ablation | None = None
    compiled: precompile.Compiled | None = None
    testimony: Testimony = field(default_factory=Testimony)


def evaluate(job: Job, host: Host, cancellation: Cancellation | None = None) -> tuple[Evaluation, bytes]:
    """The evaluation and its timeline; soon after it is cancelled, whatever there is by then.

    Raises only for our own faults (ZygoteError, OSError, DeviceUnhealthyError)."""
    progress = Progress(seed=os.urandom(32), stages=Stages(), cancellation=cancellation or Cancellation())
    try:
        _measure(job, host, progress)
        fault = None
    except Fault as found:
        fault = found
    evaluation = _conclude(host, progress, fault)
    blocks = evaluation.timing.blocks if evaluation.timing else ()
    return evaluation, progress.stages.chrome_trace(blocks)


def _measure(job: Job, host: Host, progress: Progress) -> None:
    """All stages in order.  Raises Fault."""
    _refuse_unfit(job, host)
    deadline = Deadline(job.options.deadline_s, job.options.call_timeout_s, progress.cancellation)
    with progress.stages.stage("reference"), host.lease.shared():
        reference, agreed = _prepare_reference(job, host, progress.seed)
    try:
        with progress.stages.stage("spawn"):
            candidate = host.candidate(job.options.memory_bytes)
        _try(job, host, progress, reference, candidate, agreed, deadline)
    except ReferenceFailedError as error:
        host.references.discard(reference.party)
        raise _invalid("reference_failed", f"the reference failed: {error}") from error
    finally:
        with host.lease.shared():
            host.references.leave(reference)


def _try(
    job: Job, host: Host, progress: Progress, reference: Seat, candidate: Party, agreed: spec.Spec, deadline: Deadline
) -> None:
    """What is done with the candidate, whose process ends afterwards whatever happens."""
    seat = Seat(candidate)
    progress.cancellation.aim(candidate.process)
    try:
        with _Blame(job, agreed):
            with progress.stages.stage("compile"):
                _load(seat, job, reference, agreed, progress.seed, deadline)
            trials = progress.trials = Trials(reference, seat, agreed, progress.seed, deadline, _rule(job))
            _contest(job, host, progress, trials, agreed)
            with progress.stages.stage("profile"), host.lease.shared():
                progress.testimony, progress.profile = _profile(trials)
        _look_closer(job, host, progress, trials, agreed)
    finally:
        progress.testimony = replace(progress.testimony, stdout=_printable(candidate.process.output))
        progress.cancellation.aim(None)
        host.retire(candidate)


def _rule(job: Job) -> compare.Rule:
    rtol, atol = job.options.rtol, job.options.atol
    return compare.Rule(tolerance=None if rtol is None or atol is None else (rtol, atol))


def _refuse_unfit(job: Job, host: Host) -> None:
    if len(job.candidate) > wire.SOURCE_BYTES:
        size = f"{len(job.candidate):,} bytes; at most {wire.SOURCE_BYTES:,} are evaluated"
        raise Fault(Status.COMPILE_ERROR, "too_large", f"the source has {size}")
    if len(job.reference) > wire.SOURCE_BYTES:
        raise _invalid(
            "reference_failed", f"the reference has {len(job.reference):,} bytes; at most {wire.SOURCE_BYTES:,}"
        )
    if job.backend == "cuda" and host.device.precompiles:
        raise _invalid("needs_gpu", "backend 'cuda' needs a GPU; this device is the CPU")
    if job.backend == "cuda" and (missing := toolchain.missing(cuda=True)):
        raise _invalid("no_compiler", f"backend 'cuda' needs {', '.join(missing)} on this host")


def _prepare_reference(job: Job, host: Host, seed: bytes) -> tuple[Seat, spec.Spec]:
    """A seat in the reference's process with fresh parameters, described and laid out.  Raises Fault (invalid)."""
    seat = None
    try:
        seat = host.references.sit(job.reference, job.entry_point, REFERENCE_TIMEOUT_S)
        agreed = seat.describe(_init_seed(seed), REFERENCE_TIMEOUT_S)
        slots = max(2, min(host.device.max_slots, host.device.arena_bytes // max(1, agreed.slot_bytes)))
        place = spec.arena(agreed, slots)
        seat.share_arena(place, place.reference_bytes, REFERENCE_TIMEOUT_S)
    except (FailedError, Ended, TimedOut, ValueError, KeyError) as error:
        if seat is not None:
            host.references.discard(seat.party)
            host.references.leave(seat)
        message = f"no answer within {REFERENCE_TIMEOUT_S:g} s" if isinstance(error, TimedOut) else str(error)
        log = error.log if isinstance(error, FailedError) else ""
        raise _invalid("reference_failed", f"the reference failed by itself: {message}", log) from error
    return seat, agreed


class _Blame:
    """Turns what the candidate's process does wrong into a Fault.  What the reference does wrong meanwhile is another
    exception (ReferenceFailedError) and passes through."""

    def __init__(self, job: Job, agreed: spec.Spec) -> None:
        self._job = job
        self._agreed = agreed

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, FailedError):
            if error.outcome is Outcome.CALL_FAILED and _beyond_the_interpreter(self._job, self._agreed):
                raise _invalid("not_verifiable_on_cpu", f"{_BF16} ({error.message})", error.log) from error
            status = _STATUS[error.outcome]
            raise Fault(status, error.outcome.name.lower(), error.message, error.log) from error
        if isinstance(error, TimedOut):
            options = self._job.options
            limits = f"{options.call_timeout_s:g} s a call, {options.deadline_s:g} s in all"
            raise Fault(Status.TIMEOUT, "timeout", f"no answer in time ({limits})") from error
        if isinstance(error, Ended):
            if os.WIFSIGNALED(error.status) and os.WTERMSIG(error.status) == _SIGXCPU:
                raise Fault(Status.TIMEOUT, "cpu_limit", "the process used up its processor time") from error
            if error.out_of_memory:
                raise Fault(Status.OUT_OF_MEMORY, "out_of_memory", str(error)) from error
            raise Fault(Status.CRASHED, "crashed", str(error)) from error
        if isinstance(error, ValueError):
            raise Fault(Status.CRASHED, "malformed_answer", f"the process broke the protocol: {error}") from error


def _load(candidate: Seat, job: Job, reference: Seat, agreed: spec.Spec, seed: bytes, deadline: Deadline) -> None:
    """Source, then arena with the reference's parameters, then the constructor."""
    assert reference.place is not None
    candidate.party.load_candidate(job.candidate, agreed, job.entry_point, job.backend, deadline.allow())
    place = reference.place
    timeout_s = deadline.allow()
    candidate.share_arena(place, place.candidate_bytes, timeout_s, seed=_init_seed(seed), prefix=reference.prefix)


def _init_seed(seed: bytes) -> bytes:
    """The seed under which both constructors run, so that parameters without a namesake start alike.  The candidate is
    given this one; nothing about the inputs follows from it."""
    return hashlib.sha256(seed + b"init").digest()


def _contest(job: Job, host: Host, progress: Progress, trials: Trials, agreed: spec.Spec) -> None:
    """Calls on their own, then timed blocks; every call of either kind is verified."""
    with progress.stages.stage("correctness"):
        walls = [trials.first_call(host.lease)]
        more = min(job.options.correctness_calls - 1, trials.slots)
        with host.lease.shared():
            batch = trials.draw(max(1, more))
        for slot in range(more):
            with host.lease.shared():
                walls.append(trials.try_call(batch, slot))
        _require_correct(trials, agreed, job)
        with host.lease.shared():
            trials.look_twice(batch, 0)
        if job.options.variants:
            trials.try_variants(host.lease, batch)
    _require_correct(trials, agreed, job)
    if job.options.timing_budget_s > 0:
        terms = contest.Terms(
            budget_s=job.options.timing_budget_s, block_us=host.device.block_us, round_bytes=host.device.arena_bytes,
            floor_us=roofline.floor_us(agreed.bytes_moved, host.bytes_per_s),
        )  # fmt: skip
        venue = contest.Venue(
            lease=host.lease, wakeful=host.wakeful, health=host.health, stopwatch=host.stopwatch,
            cores=host.quiet_cores,
        )  # fmt: skip
        with progress.stages.stage("timing"):
            progress.timing = contest.run(trials, venue, terms, candidate_us=min(walls))
        _require_correct(trials, agreed, job)


def _require_correct(trials: Trials, agreed: spec.Spec, job: Job) -> None:
    if not trials.failed:
        return
    if _beyond_the_interpreter(job, agreed):
        raise _invalid("not_verifiable_on_cpu", f"{_BF16} ({_wrong(trials.failed[0])})")
    kind = "stale_output" if any(check.stale_call is not None for check in trials.failed[0].outputs) else "wrong_output"
    count = f"{len(trials.failed)} of {trials.calls} calls were wrong; "
    raise Fault(Status.INCORRECT, kind, count + _wrong(trials.failed[0]))


def _beyond_the_interpreter(job: Job, agreed: spec.Spec) -> bool:
    """Whether a failure may be the interpreter's: a right answer is right, but a wrong one in bf16 accuses nobody."""
    return job.backend == "triton" and (agreed.has_dtype("bfloat16") or b"bfloat16" in job.candidate)


_BF16 = "not verifiable on CPU: Triton's interpreter computes bf16 wrongly"


def _wrong(trial: Trial) -> str:
    """What is wrong with the first wrong output of a call."""
    check = next(output for output in trial.outputs if not output.ok)
    return f"call {trial.call}, output {check.index} ({check.dtype}, {list(check.shape)}): {_difference(check)}"


def _difference(check: OutputCheck) -> str:
    if check.unwritten:
        return f"{check.unwritten:,} elements were never written"
    if check.stale_call is not None:
        return f"it is the answer to call {check.stale_call}"
    if check.nonfinite_mismatches:
        return f"{check.nonfinite_mismatches:,} elements are NaN or infinite where the reference is not, or the reverse"
    if check.rel_l2 is None or check.max_norm is None:
        return "the error is not finite"
    return (
        f"relative error {check.rel_l2:.2e} (at most {check.rel_l2_limit:.2e}), "
        f"largest error {check.max_norm:.2e} × rms (at most {check.max_norm_limit:.2e})"
    )


def _profile(trials: Trials) -> tuple[Testimony, Profile]:
    """What the candidate's process says of its own kernels, in one more call."""
    candidate = trials.candidate
    trials.show(trials.draw(1), 0, 1)
    whole_ns, _ = candidate.ask(Command.PROFILE, trials.deadline.allow(), a=0)
    rows, launches = candidate.ask(Command.TESTIFY, trials.deadline.allow())
    kernels = []
    for index in range(min(rows, wire.TABLE_BYTES // wire.KERNEL_ROW.size)):
        at = wire.TABLE_AT + index * wire.KERNEL_ROW.size
        name, count, nanoseconds = wire.KERNEL_ROW.unpack_from(candidate.party.mailbox, at)
        kernels.append(KernelRow(name=wire.field_text(name), launches=count, total_us=nanoseconds / 1000, custom=True))
    spent_ns = sum(kernel.total_us for kernel in kernels) * 1000
    coverage = min(1.0, spent_ns / whole_ns) if whole_ns else None
    profile = Profile(kernels=tuple(kernels), calls=1, coverage_time=coverage, coverage_count=None, source="testimony")
    return Testimony(launches=launches), profile


def _look_closer(job: Job, host: Host, progress: Progress, trials: Trials, agreed: spec.Spec) -> None:
    """For Triton: do its kernels matter, and would they compile for a real GPU?  Raises Fault if they would not."""
    if job.backend != "triton" or not progress.testimony.launches:
        return
    notes = trials.candidate.party.mailbox[wire.NOTES_AT : wire.NOTES_AT + wire.TABLE_BYTES].rstrip(b"\0")
    with progress.stages.stage("ablation"), host.lease.shared():
        progress.ablation = _ablate(job, trials, agreed, progress.testimony.launches)
        if _needs_another_look(host, progress, progress.ablation) and _emptied(job, host, progress, trials, agreed):
            progress.ablation = replace(progress.ablation, still_correct=True, reason="by source")
    if not host.device.precompiles:
        return
    with progress.stages.stage("precompile"):
        progress.compiled = precompile.precompile(host, job.candidate, notes)
    refused = [kernel for kernel in progress.compiled.kernels if kernel.outcome == "failed"]
    if refused:
        first = refused[0]
        message = f"{first.name} runs in the interpreter but does not compile for {precompile.TARGET_NAME}"
        raise Fault(Status.COMPILE_ERROR, "gpu_compile", message, first.message)


def _ablate(job: Job, trials: Trials, agreed: spec.Spec, launches: int) -> Ablation:
    """One more verified call in which the candidate's kernels do nothing; and, where the answer is wrong then, another
    in which each only copies."""
    timeout_s = job.options.call_timeout_s
    alone = Trials(trials.reference, trials.candidate, agreed, os.urandom(32), Deadline(timeout_s, timeout_s))
    copies = None
    try:
        trials.candidate.ask(Command.ABLATE, timeout_s)
        alone.try_call(alone.draw(1), 0)
        _, total = trials.candidate.ask(Command.TESTIFY, timeout_s)
        right = not alone.failed
        if not right:
            trials.candidate.ask(Command.ABLATE, timeout_s, a=1)
            alone.failed.clear()
            alone.try_call(alone.draw(1), 0)
            copies = not alone.failed
    except (FailedError, Ended, TimedOut, ValueError) as error:
        # Without its kernels it cannot even return: they matter.
        return Ablation(attempted=True, reason=f"without its kernels it fails: {error}"[:500], still_correct=False)
    skipped = total - launches
    return Ablation(
        attempted=True, reason="", launches_skipped=skipped, still_correct=right, copies_still_correct=copies
    )


def _needs_another_look(host: Host, progress: Progress, seen: Ablation) -> bool:
    """Whether a candidate that may be faster than the reference says of itself that its kernels matter.

    On a GPU, where a process more costs a context more, only if it said so by failing."""
    at_stake = progress.timing is not None and progress.timing.ci_high > 1
    return at_stake and not seen.still_correct and (host.device.precompiles or bool(seen.reason))


def _emptied(job: Job, host: Host, progress: Progress, trials: Trials, agreed: spec.Spec) -> bool:
    """Whether a fresh process that was given the source without its kernels, and told nothing, answers right."""
    source = ablation.without_kernels(job.candidate)
    if source is None:
        return b"jit" not in job.candidate  # launches of what is not there
    timeout_s = job.options.call_timeout_s
    deadline = Deadline(timeout_s, timeout_s, progress.cancellation)
    party = host.candidate(job.options.memory_bytes)
    try:
        seat = Seat(party)
        _load(seat, replace(job, candidate=source), trials.reference, agreed, progress.seed, deadline)
        alone = Trials(trials.reference, seat, agreed, os.urandom(32), deadline)
        alone.try_call(alone.draw(1), 0)
        return not alone.failed
    except (FailedError, Ended, TimedOut, ValueError):
        return False
    finally:
        host.retire(party)


def _conclude(host: Host, progress: Progress, fault: Fault | None) -> Evaluation:
    assert host.environment is not None
    passed = fault is None
    return Evaluation(
        status=fault.status if fault else Status.PASSED, error=fault.error if fault else None,
        environment=host.environment, seed=progress.seed.hex(),
        correctness=progress.trials.correctness() if progress.trials and progress.trials.calls else None,
        timing=progress.timing if passed else None, profile=progress.profile, ablation=progress.ablation,
        compiled_kernels=progress.compiled.kernels if progress.compiled else (),
        testimony=progress.testimony, stage_ms=progress.stages.milliseconds(),
    )  # fmt: skip


def _invalid(kind: str, message: str, log: str = "") -> Fault:
    """Nobody is blamed."""
    return Fault(Status.INVALID, kind, message, log)


def _printable(output: bytes) -> str:
    return output.decode("utf-8", "replace").replace("\x00", "\ufffd")
