"""Calls on inputs that the problem's own distribution seldom or never has
(workers/protocol/input_variants.py).
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

import torch

from workers.protocol import layout, shared_memory
from workers.protocol.control_channel import AblationMode, Delivering
from workers.protocol.input_variants import CHECKED, CLOSER, REACHED, Variant
from workers.protocol.roundoff import is_integer
from workers.referee.comparison import output_errors, usual_answers
from workers.referee.processes.process_handle import PROCESS_ERRORS, FailedError
from workers.referee.session.batches import Batch, Truth, leaf_views
from workers.referee.session.call_runner import CallRunner
from workers.referee.session.reference_side import ReferenceFailedError
from workers.referee.wrong_output import OTHER_INPUTS

COSTLY_KINDS = 3
"""Kinds of unusual inputs, chosen at random, if calls are streamed or expected outputs take long:
each occupies the device for a quarter of a second or more (6 GB, H200).
"""


FASTER, PLACES = 1.2, 3
"""Speedup above which a candidate is called again on inputs that are changed in a few places only,
and how often.  A candidate that looks at a sample of its inputs, and leaves work out if that looks
usual, was refused in two of three evaluations with one such call of each kind; its gain was 10.
"""

AGAIN = (Variant.LOCAL, Variant.PARTLY, Variant.TELLING, Variant.SHRUNK)
"""Kinds of inputs for these calls: each draw changes other places, or shrinks by another factor.
A maximum in place of a logarithm of sums passed every second evaluation with one factor.
"""

UNLIMITED = frozenset({Variant.REACHING, Variant.HELD, Variant.LASTING, Variant.PARTLY})
"""Kinds of unusual inputs to which an answer may be of any size: they are scaled to
reach limits that other inputs do not.
"""

SMALL = frozenset({Variant.SHRUNK, Variant.BALANCED, Variant.REACHING})
"""Kinds of unusual inputs to which an answer may be small: a square of them is, a sum of both
signs, and a quotient by a norm that falls below its limit.
"""

CLOSE = frozenset({Variant.REDRAWN, Variant.BALANCED})
"""Kinds of unusual inputs on which outputs are compared more closely than nearness tells."""


def answer_sizes(truth: Truth) -> list[usual_answers.AnswerSize]:
    """Summary of each output of the first of some calls on the problem's own inputs."""
    return [
        usual_answers.answer_size(baseline[:1], expected[:1])
        for expected, baseline in zip(*truth, strict=True)
    ]


def try_variants(runner: CallRunner, before: list[usual_answers.AnswerSize]) -> None:
    """Make a call on each kind of unusual inputs for which the reference is well conditioned.
    `before`: summaries of usual outputs.

    Only plainly wrong outputs count (correctness.Rule.gross).
    """
    norms = tuple(
        usual_answers.least_norm(size, layout.dtype_of(leaf), math.prod(leaf.get("shape", ())))
        for size, leaf in zip(before, runner.arena.outputs.leaves, strict=True)
    )
    runner.record.rule = replace(runner.record.rule, least_norms=norms)
    with _naming_the_inputs():
        _try_all(runner, before)


@contextmanager
def _naming_the_inputs() -> Iterator[None]:
    """Context in which an error of the candidate says that its inputs were unusual, because it does
    not occur on the problem's own inputs.
    """
    try:
        yield
    except FailedError as error:
        raise FailedError(
            error.outcome, f"{error.message} ({OTHER_INPUTS})\n{error.log}"
        ) from error


def _try_all(runner: CallRunner, before: list[usual_answers.AnswerSize]) -> None:
    few = runner.streams or runner.are_costly
    chosen = secrets.SystemRandom().sample(CHECKED, COSTLY_KINDS) if few else CHECKED
    alone = {*CLOSER, *SMALL}
    wanted = [kind for kind in chosen if kind not in alone]
    at_once = runner.kinds_at_once
    for start in range(0, len(wanted), at_once):
        with runner.device_lock.shared():
            _try_some(runner, wanted[start : start + at_once], before)
    apart = [*(kind for kind in chosen if kind in alone), *REACHED]  # with limits of their own
    for start in range(0, len(apart), at_once):
        # Few problems have any, so one request asks for many.
        with runner.device_lock.shared():
            batch = runner.draw_unusual(apart[start : start + at_once])
        if batch is None:
            continue
        for slot in range(batch.slots):
            with runner.device_lock.shared():
                _try_drawn(runner, batch.only([slot]), before)


def try_other_places(runner: CallRunner, before: list[usual_answers.AnswerSize]) -> None:
    """Make further calls on inputs of the kinds in `AGAIN`, with places and factors drawn anew.
    `before`: summaries of usual outputs.
    """
    places = 1 if runner.streams or runner.are_costly else PLACES
    at_once = min(places, runner.in_block)
    with runner.candidate.copying_outputs(), _naming_the_inputs():
        for kind in AGAIN:
            for start in range(0, places, at_once):
                with runner.device_lock.shared():
                    _try_some(runner, (kind,), before, sets=min(at_once, places - start))


def try_nonfinite(runner: CallRunner) -> None:
    """Record how the candidate treats NaN and infinity.  This never counts against it, and if
    memory runs out here, the evaluation keeps its result.  Triton's `max` ignores a NaN that
    torch's propagates, an iteration may never converge, and an index computed from a NaN may be any
    number.  So this is the last request to a candidate's process, and other evaluations may use the
    device meanwhile.
    """
    if not runner.deadline.left_s:
        return
    candidate = runner.candidate
    candidate.delivering = Delivering.COPY
    with suppress(
        *PROCESS_ERRORS,
        ReferenceFailedError,
        torch.OutOfMemoryError,
        shared_memory.OutOfDeviceMemoryError,
    ):
        candidate.replace_launches(runner.time_limit_s(candidate, 1), AblationMode.HONEST)
        with runner.device_lock.shared():
            batch = runner.draw_unusual((Variant.NONFINITE,))
            if batch is None:
                return
            runner.fill(candidate, batch, 0, 1)
        times = runner.run_apart(batch, runner.time_limit_s(candidate, 1))
        with runner.device_lock.shared():
            own = _own_answers(runner, batch)
            outputs = runner.delivery(batch, 0, 1, times, []).outputs
            got = leaf_views(outputs, runner.arena.outputs)
            if not all(map(output_errors.is_finite, own)):
                runner.record.propagates_nonfinite = all(
                    map(output_errors.same_nonfinite, got, own)
                )


def _own_answers(runner: CallRunner, batch: Batch) -> list[torch.Tensor]:
    """The reference's own outputs of a call, (1, elements) each: those in fp64 are NaN or infinite
    at the same positions and may take a request of their own.
    """
    if runner.arena.slots.together:
        return runner.truth([(batch, 0, 1)]).baseline
    return runner.own_outputs([(batch, 0, 1)])


def unusual(runner: CallRunner, variant: Variant, usual_batch: Batch) -> Batch | None:
    """Inputs of this kind for one call; None if the reference is not well conditioned on them."""
    batch = runner.draw_unusual((variant,))
    if batch is None:
        return None
    before = answer_sizes(runner.truth([(usual_batch, 0, 1)]))
    objections, _ = _objections(runner, batch, before, ceiling=variant in CHECKED)
    return None if objections[0] else batch


def _try_some(
    runner: CallRunner,
    variants: Sequence[Variant],
    before: list[usual_answers.AnswerSize],
    sets: int = 1,
) -> None:
    """Make calls on `sets` input sets of each of these kinds, which have the same limits."""
    batch = runner.draw_unusual(variants, sets)
    if batch is not None:
        _try_drawn(runner, batch, before)


def _try_drawn(runner: CallRunner, batch: Batch, before: list[usual_answers.AnswerSize]) -> None:
    """Make calls on these inputs: of one kind, or of kinds that have the same limits."""
    ceiling = UNLIMITED.isdisjoint(batch.variants)
    ordered = not any(map(is_integer, map(layout.dtype_of, runner.arena.outputs.leaves)))
    is_close = not CLOSE.isdisjoint(batch.variants)
    if ordered and not is_close and _are_near(runner, batch, before, ceiling=ceiling):
        return
    floor = SMALL.isdisjoint(batch.variants)
    objections, known = _objections(runner, batch, before, ceiling=ceiling, floor=floor)
    runner.record.excused += [
        f"{variant.name.lower()}: {objection}"
        for variant, objection in zip(batch.variants, objections, strict=True)
        if objection
    ]
    runner.yield_to_timers()
    fit = [slot for slot, objection in enumerate(objections) if not objection]
    if fit:
        delivery = runner.run_candidate(batch.only(fit), 0, len(fit))
        runner.verify(delivery, known=known if len(fit) == batch.slots else None)


def _are_near(
    runner: CallRunner, batch: Batch, before: list[usual_answers.AnswerSize], *, ceiling: bool
) -> bool:
    """Make the calls if the reference's own answers look usual, and test whether all
    outputs are near those: then nothing depends on expected outputs, which take twenty
    times as long (fp64 convolutions, H200).
    """
    if not runner.record.compares_own(gross=True):
        return False
    at_once = runner.record.own_at_once
    for start in range(0, batch.slots, at_once):
        runner.yield_to_timers()
        own = runner.own_outputs([(batch, start, min(at_once, batch.slots - start))])
        if not all(
            usual_answers.looks_usual(*pair, ceiling=ceiling)
            for pair in zip(own, before, strict=True)
        ):
            return False
    runner.yield_to_timers()
    return runner.verification.take_near(runner.run_candidate(batch, 0, batch.slots))


def _objections(
    runner: CallRunner,
    batch: Batch,
    before: list[usual_answers.AnswerSize],
    *,
    ceiling: bool = True,
    floor: bool = True,
) -> tuple[list[str], Truth | None]:
    """Per input set, the reason why the reference's answer cannot be used; empty if it can.  Also
    the expected outputs, if those of all sets are in memory together.
    """
    found: list[str] = []
    at_once = runner.record.calls_at_once
    truth = None
    for start in range(0, batch.slots, at_once):
        runner.yield_to_timers()
        truth = runner.truth([(batch, start, min(at_once, batch.slots - start))])
        per_output = [
            usual_answers.objections(baseline, expected, each, ceiling=ceiling, floor=floor)
            for expected, baseline, each in zip(*truth, before, strict=True)
        ]
        found += [next(filter(None, calls), "") for calls in zip(*per_output, strict=True)]
    return found or [""] * batch.slots, truth if batch.slots <= at_once else None
