"""EVALUATE: ablation: does the answer depend on the candidate's kernels?  (hacks 1f, 1g, 5e)

Verified calls are repeated with the kernels replaced by no-ops, by plain copies, and by replays of
the values that they wrote for other inputs.  These calls run in the candidate's process, which
could lie.  Where that matters, a fresh process answers in which no kernel is ever launched.  Inputs
of other kinds are added because a problem's own inputs may not show a kernel's effect.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from app.domain.evidence import Ablation
from app.domain.source import source_ablation
from workers.protocol.control_channel import AblationMode
from workers.protocol.input_variants import Variant
from workers.referee.comparison import kept_slices
from workers.referee.probes import ablated_calls, constant_answers, few_bits
from workers.referee.probes.ablated_calls import Answer, is_right, passes
from workers.referee.processes.process_handle import PROCESS_ERRORS, FailedError
from workers.referee.session import close_looks, first_calls
from workers.referee.session.batches import Batch, leaf_views
from workers.referee.session.call_runner import CallRunner
from workers.referee.session.context import EvaluationContext
from workers.referee.session.deadline import Deadline
from workers.referee.session.setup import fresh_session
from workers.referee.session.variant_calls import unusual

AUDITED = 20
"""Audit rate on a GPU: 1 in AUDITED candidates without any evidence against them
runs in a fresh process.
"""

AUDITED_FAST, FAST = 8, 3.0
"""Audit rate, and the speedup from which on it applies: the lower end of the
confidence interval is above FAST.
"""

FIRST_CALLS = 30
"""Calls in a fresh process if launches occurred only in the first calls: more than precede the
first timed call, so that the last one behaves as the timed calls did.
"""

LIBRARY_SHARE, SLICES_SHARE = 0.1, 0.3
"""Shares of the library in a call's work from which on its tensors are noted, and slices are looked
at.
"""

BEYOND = (Variant.SPIKED, Variant.REACHING)
"""Kinds of inputs that show effects of kernels which a problem's own inputs do not show: beyond
the range of these, and beyond limits in the reference's code.
"""

FURTHER = 8
"""Further draws of the usual inputs on which kernels must not matter either, one if calls take
long: with two draws a fill that seldom has an effect was a decoy in one evaluation of four.
"""

MOSTLY_KEPT = 0.5
"""Share of an answer that stays right, below which it is not looked at on other inputs."""

ASKED_CALLS = 3
"""Time that the candidate's process may take, in units of job.LAST_CALLS: two answers and their
preparation.  The fresh process has one unit.
"""


def ablate(
    context: EvaluationContext,
    *,
    names: frozenset[str],
    at_stake: bool,
    fast: bool = False,
    own_share: float | None = None,
) -> Ablation:
    """The ablation of a candidate that launched kernels.

    `names`: kernels of the profiled call; `at_stake`: the candidate may be faster than the
    reference; `fast`: it is certainly faster by a factor of `FAST`; `own_share`: share of its
    kernels in the work of a call, if known.
    """
    counts = at_stake or context.resources.device.precompiles
    library_share = 1 - (own_share or 0.0) if counts else 0.0
    with context.resources.device_lock.shared():
        found, right_on_old_memory = _ablate_in_process(context, library_share)
    # The candidate records its launches as a graph, or makes them in its first calls alone.
    if found.still_correct and not found.launches_skipped:
        right = _is_right_without_kernels(context, names, calls=FIRST_CALLS)
        return replace(found, still_correct=right, reason=source_ablation.BY_SOURCE)
    suspected = right_on_old_memory or (
        at_stake and not found.still_correct and _wants_fresh_process(context, found, fast=fast)
    )
    # Memory of a fresh process is zero where kernels do not write.
    tells = "zeros" not in context.runner.record.null_answers
    if suspected and tells and _is_right_without_kernels(context, names):
        return replace(found, still_correct=True, reason=source_ablation.BY_SOURCE)
    return found


def _wants_fresh_process(context: EvaluationContext, found: Ablation, *, fast: bool) -> bool:
    """Test whether a fresh process is to confirm that the kernels matter.

    On a GPU that process costs a context.  It runs only if the candidate failed without
    its kernels, if its source could reach the recorder, or if the candidate was drawn for
    an audit, which it cannot know.
    """
    return (
        context.resources.device.precompiles
        or bool(found.reason)
        or not source_ablation.keeps_to_itself(context.job.candidate)
        or secrets.randbelow(AUDITED_FAST if fast else AUDITED) == 0
    )


def _ablate_in_process(
    context: EvaluationContext, library_share: float = 0.0
) -> tuple[Ablation, bool]:
    """Ablation in the candidate's own process: no-ops; if the answer is wrong then,
    replays and copies; if it is wrong with all of them, tensors of the library.
    `library_share`: the library's share in the work of a call, if credit is at stake.

    Also returned: whether the answer was right with no-ops as long as unwritten memory kept
    its content, and wrong otherwise.  Either that memory held an earlier output, or the
    candidate detects the ablation.
    """
    timeout_s = context.job.options.last_call_s
    deadline = Deadline(
        ASKED_CALLS * timeout_s, timeout_s, uncharged=context.runner.device_lock.uncharged
    )
    extra = _uncounted(context, deadline)
    copies = replays = kept = None
    mapped = Mapped(None)
    right_on_old_memory, right, reason = False, False, ""
    try:
        answers = ablated_calls.answers(extra)
        usual, other = answers[:2]
        right_on_old_memory = usual.right or other.right
        if right_on_old_memory:
            right, reason = _is_right_with_nothing(extra, usual.batch, other.batch)
        else:
            reason = usual.error or other.error
        left_out, _ = ablated_calls.replace_by(extra, AblationMode.HONEST)
        if right and left_out and _matter_beyond(extra, AblationMode.NOTHING, usual.batch):
            right = False
        elif not right:
            replays = _are_replayable(extra, answers)
            copies = not replays and not reason and _are_copies(extra, answers)
            if library_share > LIBRARY_SHARE and not (copies or replays or reason):
                copies, mapped = _follow_from_library(extra)
            if library_share > SLICES_SHARE and not (copies or replays or reason):
                kept = _kept_share(extra, usual.batch)
    except PROCESS_ERRORS as error:
        # Without its kernels it cannot even return: they matter.
        reason = reason or ablated_calls.failure(error)
        return Ablation(attempted=True, reason=reason, still_correct=False), right_on_old_memory
    found = Ablation(
        attempted=True,
        reason=reason,
        launches_skipped=left_out,
        still_correct=right,
        copies_still_correct=copies,
        replays_still_correct=replays,
        kept_share=kept,
        mapped_bytes=mapped.library_bytes,
        mapped_within=mapped.is_within,
        mapped_before=mapped.are_prepared,
    )
    return found, right_on_old_memory and not right


def _is_right_with_nothing(extra: CallRunner, *batches: Batch) -> tuple[bool, str]:
    """Test whether a call is right with no-ops and with NaN in unwritten memory; also the reason
    why it fails, if it does.
    """
    mode = AblationMode.NOTHING
    try:
        right = any(is_right(extra, mode, batch) for batch in batches)
        return right and few_bits.stays_right(extra, mode), ""
    except FailedError as error:  # without its kernels it cannot even return
        return False, ablated_calls.failure(error)


def _uncounted(context: EvaluationContext, deadline: Deadline) -> CallRunner:
    """Further calls of the candidate that do not count towards the evaluation."""
    runner = context.runner
    extra = context.further_calls(runner.candidate, deadline, quickest_s=runner.quickest_s)
    extra.counts = False
    return extra


def _are_copies(extra: CallRunner, answers: Sequence[Answer]) -> bool:
    """Test whether a call was right with copies in place of the launches, and a copy of an input
    is not all that the problem asks for.
    """
    usual = answers[0].batch
    copied = any(
        answer.right
        and _shows_copies(extra, answer)
        and not _matter_beyond(extra, answer.mode, usual)
        and few_bits.stays_right(extra, answer.mode)
        for answer in answers
        if answer.mode in ablated_calls.COPIES
    )
    return copied and not _asks_for_copies(extra, usual)


class Mapped(NamedTuple):
    """Launches of which each result follows from a few elements of the library's, and suffice."""

    library_bytes: int | None
    """Work of the library in a call, in modelled bytes; None if there are none."""
    is_within: bool = False
    """True if the library computes with their results."""
    are_prepared: bool = False
    """True if other launches, of which each result follows from a few elements of inputs, were made
    as well.
    """


def _follow_from_library(extra: CallRunner) -> tuple[bool, Mapped]:
    """Test whether a call was right with tensors that the library had computed in place of the
    launches, or with those launches alone of which each result follows from a few elements of some.

    These calls run under a dispatch mode, which a candidate can see.
    """
    answers = ablated_calls.answers(extra, ablated_calls.LIBRARY)
    _, number = ablated_calls.replace_by(extra, AblationMode.HONEST)
    if _are_copies(extra, answers):
        return True, Mapped(None)
    last = answers[-1]
    is_right = last.right and number and few_bits.stays_right(extra, last.mode)
    if not is_right or _matter_beyond(extra, last.mode, answers[0].batch):
        return False, Mapped(None)
    return False, Mapped(number // 4, bool(number & 1), bool(number & 2))


def _asks_for_copies(extra: CallRunner, usual: Batch) -> bool:
    """Test whether the right answer is an input as it is, on usual inputs and on some beyond them,
    which a clamp would change.  False if there are none of these, and of a model with weights:
    other ones may open a branch.
    """
    if extra.arena.parameters.leaves:
        return False
    asked = [
        close_looks.are_inputs(batch, extra.truth([(batch, 0, 1)]), extra.arena)
        for batch in chain([usual], _beyond(extra, usual))
    ]
    return len(asked) > 1 and all(asked)


def _shows_copies(extra: CallRunner, answer: Answer) -> bool:
    """Test whether a right call with copies in place of the launches shows that the kernels only
    copy.  Where the right answer is an input but for a small change, a copy of it is not: the
    kernels make the change.  Where it is the input as it is, after rounding, a copy proves nothing.
    """
    assert answer.delivery is not None
    truth = extra.truth([(answer.delivery.batch, answer.delivery.first, 1)])
    return not close_looks.depend_on_small_changes(answer.delivery, truth, extra.arena)


def _kept_share(extra: CallRunner, usual: Batch) -> float:
    """Share of the outputs that stays right without the kernels (kept_slices.share): on usual
    inputs, and on some with spikes, where a clamp in place has its effect in every row.
    """
    kept = _kept_in(extra, usual)
    if kept < MOSTLY_KEPT:
        return kept
    spiked = unusual(extra, Variant.SPIKED, usual)
    return kept if spiked is None else min(kept, _kept_in(extra, spiked))


def _kept_in(extra: CallRunner, batch: Batch) -> float:
    extra.yield_to_timers()
    ablated_calls.replace_by(extra, AblationMode.NOTHING)
    try:
        delivery = extra.run_candidate(batch, 0, 1)
    except FailedError:
        return 0.0
    leaves = extra.arena.outputs.leaves
    return kept_slices.share(
        [leaf[0] for leaf in leaf_views(delivery.outputs, extra.arena.outputs)],
        [leaf[0].reshape(-1) for leaf in extra.truth([(batch, 0, 1)]).expected],
        [tuple(leaf.get("shape", ())) for leaf in leaves],
    )


def _matter_beyond(extra: CallRunner, mode: AblationMode, usual: Batch) -> bool:
    """Test whether further inputs, or inputs beyond the usual ones, exist on which the candidate is
    right with its kernels and wrong with `mode` in their place.  A clamp whose limits the problem's
    inputs never reach has its effect there.
    """
    # In this order: memory left behind by a right call could hold the answer to the next one.
    return any(
        not is_right(extra, mode, batch) and is_right(extra, AblationMode.HONEST, batch)
        for batch in chain(_further(extra), _beyond(extra, usual))
    )


def _further(extra: CallRunner) -> Iterator[Batch]:
    """Further draws of the problem's own inputs."""
    return (extra.draw(1) for _ in range(1 if extra.streams or extra.are_costly else FURTHER))


def _beyond(extra: CallRunner, usual: Batch) -> Iterator[Batch]:
    """Inputs of the kinds BEYOND, as far as the reference can make them."""
    made = (unusual(extra, variant, usual) for variant in BEYOND)
    return (batch for batch in made if batch is not None)


def _stays_right_beyond(emptied: CallRunner, whole: CallRunner) -> bool:
    """Test whether a process without kernels (`emptied`) is right on further inputs and on some
    beyond the usual ones, as far as the candidate itself (`whole`) is right on them.
    """
    return all(
        passes(emptied, batch) or not is_right(whole, AblationMode.HONEST, batch)
        for batch in chain(_further(whole), _beyond(whole, whole.draw(1)))
    )


def _are_replayable(extra: CallRunner, answers: Sequence[Answer]) -> bool:
    """Test whether the answer is right with values that the kernels wrote for other inputs, such as
    a flag or a zero that is added.

    False if both inputs have the same answer, as in a fixed case, or have it where the kernels
    write: nothing is known then.
    """
    kept, replayed = (
        next(answer for answer in answers if answer.mode == mode)
        for mode in (AblationMode.KEEP, AblationMode.REPLAY)
    )
    if not (kept.right and replayed.right):
        return False
    batches = kept.batch, replayed.batch
    if constant_answers.are_all(extra, *batches):
        return False
    if constant_answers.are_all_that_needs_kernels(extra, *batches):
        return False
    scaled = unusual(extra, Variant.SCALED, kept.batch)
    if scaled is not None and not is_right(extra, AblationMode.REPLAY, scaled):
        return False
    return not _matter_beyond(extra, AblationMode.REPLAY, kept.batch)


def _is_right_without_kernels(
    context: EvaluationContext, names: frozenset[str], *, calls: int = 1
) -> bool:
    """Test whether a fresh process without the candidate's kernels answers the last of `calls`
    calls right.  The caller does not hold the lock.

    The process receives the source unchanged and launches no kernel.  If the source could reach the
    recorder and notice that, a second process receives the source with empty kernel bodies and
    launches them.  That alone would not do: kernels are found by their decorators' names, which may
    also stand at host functions.  A source of this kind without any kernel launched none; one that
    does not show a kernel that ran is left to app/detectors/unread_source.py.
    """
    variants = [(context.job.candidate, True)]
    if not source_ablation.keeps_to_itself(context.job.candidate):
        emptied = source_ablation.without_kernels(context.job.candidate)
        if emptied is None and b"jit" not in context.job.candidate:
            return True
        if emptied is not None and names <= source_ablation.kernel_names(context.job.candidate):
            variants.append((emptied, False))
    return any(
        _is_right_in_fresh_process(
            replace(context, job=replace(context.job, candidate=source)), calls, silent=silent
        )
        for source, silent in variants
    )


def _is_right_in_fresh_process(context: EvaluationContext, calls: int, *, silent: bool) -> bool:
    handle = context.resources.candidates.take(context.job.options.memory_bytes)
    try:
        with fresh_session(handle, context, silent=silent) as (session, deadline):
            extra = context.further_calls(session, deadline)
            if not _is_right_at_last(extra, calls):
                return False
            with context.resources.device_lock.shared():
                return few_bits.stays_right(extra, AblationMode.SILENT) and _stays_right_beyond(
                    extra, _uncounted(context, deadline)
                )
    except PROCESS_ERRORS:
        return False


def _is_right_at_last(extra: CallRunner, calls: int) -> bool:
    """Test whether the last of `calls` calls is right.  The first call compiles, and other
    evaluations may be timed meanwhile; the others are short and share one hold of the lock.
    """
    first_calls.make_first(extra)
    right = not extra.failed
    with extra.device_lock.shared():
        for _ in range(calls - 1):
            right = passes(extra, extra.draw(1))
    return right
