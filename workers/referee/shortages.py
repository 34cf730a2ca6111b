"""EVALUATE: times of processes in which a library lacked memory are not used.

Such a library has taken a slower algorithm without an error (workers/shims/shortages.py).  Among
other evaluations the cause is unknown, and the evaluation is repeated with the device's whole
memory (evaluate.py).
"""

from __future__ import annotations

from workers.protocol.control_channel import Command
from workers.protocol.problem_spec import ProblemSpec
from workers.referee.progress import Progress
from workers.referee.resources import Resources
from workers.referee.session import memory_needs, setup
from workers.referee.session.call_runner import CallRunner
from workers.referee.session.context import EvaluationContext
from workers.referee.session.deadline import REFERENCE_TIMEOUT_S
from workers.referee.session.fault_attribution import invalid
from workers.referee.session.reference_side import reference_side

LACKED = "a library lacked memory in the {side}'s process, and its algorithm there is a slower one"


def refuse(context: EvaluationContext, progress: Progress) -> None:
    """Raise Fault (invalid) if a library has lacked memory in the process of either side.

    With the device to itself, a candidate that had more memory than the reference needs is
    timed as it is: it has used that memory itself.
    """
    runner, resources = context.runner, context.resources
    if _of_reference(runner):
        resources.references.discard(runner.reference.handle)
        raise invalid("no_room", LACKED.format(side="reference"), out_of_memory=True)
    if not _of_candidate(runner) or (
        not progress.shares_memory and has_enough(resources, context.spec, progress.available_bytes)
    ):
        return
    raise invalid("no_room", LACKED.format(side="candidate"), out_of_memory=True)


def _of_reference(runner: CallRunner) -> int:
    with reference_side(runner.device_lock.uncharged):
        return runner.reference.ask(Command.SHORTAGES, REFERENCE_TIMEOUT_S)[0]


def _of_candidate(runner: CallRunner) -> int:
    return runner.candidate.ask(Command.SHORTAGES, runner.deadline.allow())[0]


def left_bytes(resources: Resources, spec: ProblemSpec, available_bytes: int) -> int:
    """Memory that a candidate has for its calls beside the reference, of `available_bytes`."""
    arena = setup.lay_out(resources, spec, 0.0)
    sides = arena.reference_bytes + arena.candidate_bytes + memory_needs.of_models(spec)
    return available_bytes - sides - 2 * spec.peaks.call_bytes


def has_enough(resources: Resources, spec: ProblemSpec, available_bytes: int | None) -> bool:
    """Test whether a candidate has more memory than the reference needs for a call.
    `available_bytes`: memory that was there when it was admitted; None: unknown.
    """
    return (
        available_bytes is None
        or left_bytes(resources, spec, available_bytes) > spec.peaks.call_bytes
    )
