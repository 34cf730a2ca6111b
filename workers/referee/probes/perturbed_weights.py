"""EVALUATE: does the candidate use weights that are constant until the model is trained, and every
step of an iteration?  (hack 1c)

When a model is constructed, a norm's weight is ones and its bias zeros, a layer's scale 1e-6, a
recurrence the unit matrix, a layer a copy of another.  A candidate that leaves such parameters out
is right in every call and wrong after training.  So one more call is made with other values for
them, by a new model, because an honest candidate may have folded its weights into something else in
its first call.  If the answer is wrong, a new process decides: there, values cached under an
address or a shape are gone as well.

A contraction with random weights forgets its first steps, and a kernel that leaves them out is
right.  So matrices that every step of the reference multiplies a state by are replaced by
orthogonal ones, which preserve it, and what every step adds to it by smaller ones, since a state of
the size of many inputs saturates; and parameters by which every step multiplies a state, or from
which it finds such factors, by others of all sizes, with some of which the state lasts: roots of
values below one, and numbers beside others.

A gate of one sign, or far below zero, may keep a branch closed; a clamp of weights within its
limits has no effect, and neither has the norm of rows of unit length.  Such a parameter receives
values that reach the limit, open the gate or lack the trait
(workers/shims/problem/telling_weights.py).

A reference may work on its weights alone, by a spectral norm, say.  A candidate that keeps the
result of its first call is right until they are trained; where that is a good part of the work, its
new model is given other values once more, in place.

A candidate may use other names for its parameters: a parameter stands for the constant that it
equals in shape and value.  If several parameters do, or a larger one could hold packed weights, the
candidate is not tested.  The test does not guard against that, nor against a candidate that behaves
in its second model.  One that leaves weights out once it has made some calls is found where it is
faster than the reference: the new model then makes as many calls as the first one did.  A candidate
that folds weights in the constructor, before they are given to it, looks like one that leaves them
out: this is a finding, not a failure.
"""

from __future__ import annotations

import functools
import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import torch

from app.domain.backend import BACKENDS
from app.domain.evaluation import FreshWeights
from app.domain.evidence import Ablation
from app.domain.output_checks import OutputCheck
from app.domain.source.source_ablation import BY_SOURCE
from workers.protocol import control_channel, problem_spec
from workers.protocol.control_channel import AblationMode, Command, Delivering, ReplyCode
from workers.protocol.roundoff import computable, errors
from workers.referee.comparison.correctness import Rule
from workers.referee.probes import weight_values
from workers.referee.probes.ablated_calls import COPIES, is_right
from workers.referee.processes.process_handle import PROCESS_ERRORS, FailedError
from workers.referee.processes.process_session import Session
from workers.referee.session import first_calls
from workers.referee.session.batches import Batch
from workers.referee.session.call_runner import CallRunner
from workers.referee.session.context import EvaluationContext
from workers.referee.session.deadline import REFERENCE_TIMEOUT_S, Deadline
from workers.referee.session.reference_side import ReferenceFailedError
from workers.referee.session.setup import fresh_session, init_seed

STALE = "after its weights were changed in place, its answer was the one that they gave before"
"""Reason of a result that a second change of weights shows."""

MOST_SPREAD = 1.25e-3
"""Largest spread of the reference's answers, in relative L2, that counts with other weights.  Sums
and convolutions in TF32 have less.  Four times as much is right, and the detector accuses of errors
beyond 2 %, as on unusual inputs.
"""


FEWEST_S, MOST_S, TIMES_LONGER = 1.0, 5.0, 8.0
"""Least and most seconds for as many calls as the candidate has made, and how many times longer
than its quickest ones they may be.
"""

BLOCK_S = 0.005
"""Seconds of such calls between which timers have their turn; a request of its own for each of a
thousand short calls would take longer than all checks of other weights.
"""


def constant_names(spec: problem_spec.ProblemSpec, candidate: Session) -> tuple[str, ...]:
    """Constants of the problem that the candidate's model has or has no place for, as its process
    reports.  Without a place they could never be trained.
    """
    asked = (
        candidate.matching_constants | candidate.matching_constants >> control_channel.ABSENT_BIT
    )
    return tuple(name for bit, name in enumerate(spec.constants) if asked >> bit & 1)


def check(context: EvaluationContext, ablation: Ablation | None, calls: int = 0) -> FreshWeights:
    """Repeat a call with other weights, before and after as many further `calls`.  The sessions
    cannot be used afterwards, except by the call with NaN.

    There must be constant names.  `ablation`: its suspected modes are tried again with these
    weights.  Raises only for faults of the referee.
    """
    names, seed = constant_names(context.spec, context.runner.candidate), os.urandom(32)
    unknown = FreshWeights(names=names, seed=seed.hex(), still_correct=None)
    try:
        outputs, matter = _ask_renewed_model(context, names, seed, _suspected_modes(ablation))
        if calls and _are_right(outputs):
            with context.resources.device_lock.shared():
                outputs = _outputs_later(
                    context, _extra_runner(context), _extra_runner(context), calls
                )
        # A new process would compile such a source for a minute.
        compiled = BACKENDS[context.job.backend].compiled_on_host
        folded = tuple(name for name in names if name in context.spec.work.on_weights)
        if folded and _are_right(outputs) and (stale := _kept_results(context, folded)):
            return replace(unknown, names=folded, still_correct=False, outputs=stale, reason=STALE)
        if _are_right(outputs) or (outputs and compiled):
            return replace(
                unknown, still_correct=_are_right(outputs), outputs=outputs, kernels_matter=matter
            )
        return _ask_fresh_process(context, unknown, calls)
    except ReferenceFailedError as error:
        context.resources.references.discard(context.runner.reference.handle)
        return replace(unknown, reason=f"the reference fails: {error}"[:500])
    except _UnusableWeightsError as error:
        return replace(unknown, reason=str(error))


def _rule(rule: Rule) -> Rule:
    """The evaluation's rule with a limit to the reference's spread, and without usual norms: these
    belong to answers with the weights that the problem has, which may cancel to nothing until these
    are trained (the mean of a norm).
    """
    spread = tuple((min(l2, MOST_SPREAD), largest) for l2, largest in rule.spread)
    return replace(rule, spread=spread, usual_norms=())


class _UnusableWeightsError(Exception):
    """The new weights prove nothing: the reference itself fails with them."""


def _ask_renewed_model(
    context: EvaluationContext, names: tuple[str, ...], seed: bytes, modes: tuple[AblationMode, ...]
) -> tuple[tuple[OutputCheck, ...], bool | None]:
    """Checks of a call of a new model in the candidate's process, empty if it does not answer;
    and whether the kernels matter with the new weights, None if unknown.  Raises
    ReferenceFailedError, _UnusableWeightsError.

    The constructor may take long, so other evaluations may use the device meanwhile.  The call
    itself is short because its kernels are compiled; if the source compiles more than kernels, the
    call is made like a first call.
    """
    candidate, extra = context.runner.candidate, _extra_runner(context)
    candidate.delivering = Delivering.COPY
    built = _answers(
        lambda: candidate.ask(Command.RENEW, extra.deadline.allow(), seed=init_seed(context.seed))
    )
    at_once = b"compile" not in context.job.candidate
    with context.resources.device_lock.shared():
        batch = _usable_answers(context, extra, names, seed)
        if built and at_once:
            outputs = _outputs(extra, lambda: extra.try_calls(batch))
            return outputs, _kernels_matter(extra, modes) if modes and _are_right(outputs) else None
    return _outputs(extra, lambda: first_calls.make_first(extra)) if built else (), None


def _extra_runner(context: EvaluationContext) -> CallRunner:
    """Calls of the candidate's process that are recorded on their own."""
    timeout_s = context.job.options.last_call_s
    deadline = Deadline(
        timeout_s, timeout_s, context.cancellation, context.resources.device_lock.uncharged
    )
    runner = context.runner
    return context.further_calls(
        runner.candidate, deadline, _rule(runner.record.rule), runner.quickest_s
    )


def _kept_results(context: EvaluationContext, names: tuple[str, ...]) -> tuple[OutputCheck, ...]:
    """Checks of a wrong call after these weights were changed in place: all of them; then a few,
    which most samples of them miss; then a few that leave every sum of them, of their rows or of
    their columns as it is.  Empty if all calls are right, or there is no answer to compare.  Raises
    ReferenceFailedError.
    """
    changes: tuple[Callable[..., None], ...] = (
        functools.partial(weight_values.redraw, larger=True),
        weight_values.exchange,
        functools.partial(weight_values.exchange_alike, along=1),
        functools.partial(weight_values.exchange_alike, along=0),
    )
    for change in changes:
        extra = _extra_runner(context)
        with context.resources.device_lock.shared():
            change(context.runner, context.spec, names, os.urandom(32))
            try:
                batch = _reference_answers(extra)
            except _UnusableWeightsError:
                return ()
            outputs = _outputs(extra, functools.partial(extra.try_calls, batch))
        if not _are_right(outputs):
            return outputs
    return ()


def _suspected_modes(ablation: Ablation | None) -> tuple[AblationMode, ...]:
    """Ablation modes under which the output stayed correct in the candidate's process.  A kernel
    that scales by ones has no effect, or copies, until the weights are trained.
    """
    if ablation is None or ablation.reason == BY_SOURCE:
        return ()
    if ablation.still_correct:
        return (AblationMode.NOTHING,)
    return COPIES if ablation.copies_still_correct else ()


def _kernels_matter(extra: CallRunner, modes: tuple[AblationMode, ...]) -> bool | None:
    """Test whether the kernels matter; None if the process does not answer."""
    try:
        keeping = (AblationMode.KEEP, AblationMode.NOTE) if AblationMode.SCALE in modes else ()
        for keep in keeping:  # SCALE is by the launches of this process, with these weights
            is_right(extra, keep, extra.draw(1))
            if any(is_right(extra, mode, extra.draw(1)) for mode in modes):
                return False
        return bool(keeping) or not any(is_right(extra, mode, extra.draw(1)) for mode in modes)
    except PROCESS_ERRORS:
        return None


def _outputs_later(
    context: EvaluationContext, extra: CallRunner, last: CallRunner, calls: int
) -> tuple[OutputCheck, ...]:
    """Checks of a call, recorded by `last`, after up to so many further `calls`, which are not
    verified, with the weights as they are; empty if the process does not answer.
    """
    quickest_s = context.runner.quickest_s or BLOCK_S
    until = time.monotonic() + min(MOST_S, max(FEWEST_S, TIMES_LONGER * calls * quickest_s))
    in_block = max(1, min(calls, extra.in_block, int(BLOCK_S / quickest_s)))

    def call() -> None:
        batch = extra.draw(in_block)
        for _ in range(0, calls, in_block):
            extra.run_candidate(batch, 0, in_block)
            extra.yield_to_timers()
            if time.monotonic() > until:
                break
        last.try_calls(last.draw(1))

    return last.record.correctness().trials[0].outputs if _answers(call) else ()


def _ask_fresh_process(
    context: EvaluationContext, unknown: FreshWeights, calls: int
) -> FreshWeights:
    """The check repeated in a process that has seen no other weights.  The caller
    does not hold the lock.
    """
    handle = context.resources.candidates.take(context.job.options.memory_bytes)
    try:
        with fresh_session(handle, context) as (session, deadline):
            extra = context.further_calls(session, deadline, _rule(context.runner.record.rule))
            first_calls.make_first(extra)
            outputs = extra.record.correctness().trials[0].outputs
            if calls and _are_right(outputs):
                last = context.further_calls(session, deadline, _rule(context.runner.record.rule))
                with context.resources.device_lock.shared():
                    outputs = _outputs_later(context, extra, last, calls)
    except PROCESS_ERRORS as error:
        refused = isinstance(error, FailedError) and error.outcome is ReplyCode.CALL_FAILED
        reason = f"with other weights it fails: {error}"[:500]
        return replace(
            unknown, still_correct=False if refused else None, second_process=True, reason=reason
        )
    return replace(unknown, still_correct=_are_right(outputs), outputs=outputs, second_process=True)


def _usable_answers(
    context: EvaluationContext, extra: CallRunner, names: tuple[str, ...], seed: bytes
) -> Batch:
    """One input set with answers to other weights: such that states last and limits are reached, if
    the reference is accurate with them, else nearer ones.  Raises
    ReferenceFailedError, _UnusableWeightsError.
    """
    runner, spec = context.runner, context.spec
    factors = {name for name, place in spec.recurrent.items() if place is None}
    if not factors.union(spec.telling).isdisjoint(names):
        region = runner.arena.parameters
        weights = runner.reference.prefix[region.start : region.stop]
        before = weights.clone()
        weight_values.redraw(runner, spec, names, seed, telling=True)
        with suppress(_UnusableWeightsError):
            return _reference_answers(extra, most=MOST_SPREAD)
        weights.copy_(before)
    weight_values.redraw(runner, spec, names, seed)
    return _reference_answers(extra)


def _reference_answers(extra: CallRunner, most: float = math.inf) -> Batch:
    """One input set with expected outputs that follow from the parameters in the reference's
    arena.  `most`: largest error of its own answer, in relative L2.  Raises ReferenceFailedError,
    _UnusableWeightsError.
    """
    try:
        extra.reference.ask(Command.REFIT, REFERENCE_TIMEOUT_S)
    except PROCESS_ERRORS as error:
        raise ReferenceFailedError(str(error) or "no answer in time") from error
    batch = extra.draw(1)
    expected, baseline = extra.truth([(batch, 0, 1)])
    leaves = [computable(leaf) for leaf in (*expected, *baseline)]
    if leaves and not bool(torch.stack([torch.isfinite(leaf).all() for leaf in leaves]).all()):
        raise _UnusableWeightsError("with other weights the reference's own answer is not finite")
    pairs = zip(map(computable, baseline), map(computable, expected), strict=True)
    if most < math.inf and any(errors(own, right)[0] > most for own, right in pairs):
        raise _UnusableWeightsError("with other weights the reference's own answer is inaccurate")
    return batch


def _outputs(extra: CallRunner, call: Callable[[], object]) -> tuple[OutputCheck, ...]:
    """Checks of one call of the new model; empty if the process does not answer."""
    patience_s = extra.time_limit_s(extra.candidate, 1)
    if not _answers(lambda: extra.candidate.ask(Command.REFIT, patience_s)) or not _answers(call):
        return ()
    return extra.record.correctness().trials[0].outputs


def _answers(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except PROCESS_ERRORS:
        return False
    return True


def _are_right(outputs: tuple[OutputCheck, ...]) -> bool:
    return bool(outputs) and all(output.ok for output in outputs)
