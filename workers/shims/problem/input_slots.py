"""Slots of inputs of a reference's session: the problem's own draws, and variants of
them inside its domain.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from workers.backends.support.time_limit import TimeLimit
from workers.protocol import input_variants, layout
from workers.protocol.input_variants import Variant
from workers.protocol.roundoff import is_integer
from workers.shims import call_errors
from workers.shims.problem.answers import changed_inputs, pieces, true_answer
from workers.shims.problem.inputs import (
    input_domain,
    planned_inputs,
    reaching_inputs,
    varied_inputs,
)
from workers.shims.problem.inputs.broken_ties import BrokenTies
from workers.shims.problem.inputs.input_domain import Moved
from workers.shims.problem.reference_problem import Problem
from workers.shims.problem.reference_session import (
    Answers,
    Session,
    call,
    seed_changes,
    seed_slot,
    settle,
    write,
)

ENDLESS_S, ENDLESS_CALLS = 2.0, 20
"""Processor seconds, and calls on the problem's own inputs, after which the reference does not end
on changed ones.
"""

UNDEFINED = "its integers follow from equal values, or from no number"

NO_MEMORY = "no memory to vary inputs of this size"


class InputSlots:
    """Writer of inputs and expected outputs into slots; remembers which variants are
    outside the problem's domain.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._plan: planned_inputs.Plan | None = None
        self._objections: dict[Variant, str] = {}
        """By variant, the reason why it is outside the problem's domain; empty if it is inside."""
        self._decided: varied_inputs.Decided = {}

    def fill(
        self,
        session: Session,
        inputs_at: list[torch.Tensor],
        answers_at: Answers | None,
        variant: Variant = Variant.OWN,
        before_changes: Callable[[], None] = lambda: None,
    ) -> None:
        """Fill one slot: inputs and, with `answers_at`, the reference's outputs and
        the fp64 outputs.  A variant is passed to the reference in either case, because
        the reference may raise for it.  `before_changes`: seeds the variant's changes after the
        inputs are drawn.
        """
        inputs = self._problem.draw(session.draw)
        before_changes()
        if variant in input_variants.REACHED:
            how = self._planned(session)
            inputs = planned_inputs.applied(variant, how, inputs, session.model)
        else:
            inputs = varied_inputs.applied(
                variant, inputs, None if self._problem.by_cases else self._decided
            )
        if layout.describe(inputs) != session.spec.inputs:
            raise ValueError(
                "get_inputs gave other shapes or types than before: they must not vary between"
                " calls"
            )
        write(inputs_at, inputs)
        if answers_at is None:
            if variant != Variant.OWN:
                _own_answer(session, inputs, variant)
            return
        baseline_at, expected_at = answers_at
        best = true_answer.Truth(session.spec.truth)
        # With NaN among the inputs only the reference's own answer is looked at.
        twin = None if variant == Variant.NONFINITE else session.twin
        wide = true_answer.widened(inputs, best) if twin is not None else inputs
        baseline = _own_answer(session, inputs, variant)
        changed_inputs.deliver(session.spec, baseline, inputs, baseline_at)
        write(
            expected_at,
            list(baseline_at)
            if twin is None
            else changed_inputs.for_slot(session.spec, true_answer.call(twin, wide, best), wide),
        )

    def vary(
        self, session: Session, first: int, wanted: int, sets: int, seed: bytes
    ) -> tuple[int, str]:
        """Fill `sets` slots for each of the `wanted` variants (a bit mask) that is in the
        problem's domain.  Returns the bit mask of those, and a line of text with the
        reason for each other one.
        """
        slot, made = first, 0
        refused, missing = list[str](), set[Variant]()
        if any(wanted >> variant & 1 for variant in input_variants.REACHED):
            how = self._planned(session)
            missing = set(input_variants.REACHED) - set(how.all_kinds)
            refused += (f"planned: {fault}\n" for fault in how.faults)
        unknown = (
            {*input_variants.CHECKED, *input_variants.REACHED} - missing - self._objections.keys()
        )
        if any(wanted >> variant & 1 for variant in unknown):
            seed_slot(seed, slot)
            self._look_at_usual(session, slot)
        for variant in Variant:
            if not wanted >> variant & 1 or variant in missing:
                continue
            if objection := self._objections.get(variant) or self._filled(
                session, range(slot, slot + sets), variant, seed
            ):
                refused += (
                    [f"{variant.name.lower()}: {objection}\n"]
                    if variant in input_variants.CHECKED
                    else []
                )
            else:
                slot, made = slot + sets, made | 1 << variant
        settle(self._problem.device)
        return made, "".join(refused)

    def _planned(self, session: Session) -> planned_inputs.Plan:
        """Plan for inputs that reach beyond the problem's own distribution; made
        once for the problem.
        """
        if self._plan is None:
            self._plan = self._problem.if_it_fits(
                lambda: self._made_plan(session), planned_inputs.Plan(faults=(NO_MEMORY,))
            )
        return self._plan

    def _made_plan(self, session: Session) -> planned_inputs.Plan:
        """The plan; an empty one for a problem by cases."""
        if self._problem.by_cases:
            return planned_inputs.Plan()
        try:
            return reaching_inputs.plan(
                session.model,
                lambda: self._examined(session),
                self._problem.device,
                session.spec.work,
            )
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # noqa: BLE001 (inputs of any kind, which need not be copied)
            return planned_inputs.Plan(faults=(type(error).__name__,))

    def _examined(self, session: Session) -> list[Any]:
        """New inputs for the plan: those of the first piece, if the problem is computed in pieces.
        Its rows are independent, so changes that tell there tell in the whole.
        """
        inputs, rows = self._problem.draw(session.draw), session.spec.piece_rows
        if rows is None:
            return inputs
        found: list[Any] = layout.mapped(
            lambda x: x.clone() if isinstance(x, torch.Tensor) else x, pieces.cut(inputs, rows, 0)
        )
        return found

    def _filled(self, session: Session, slots: range, variant: Variant, seed: bytes) -> str:
        """Fill some slots with a variant; returns the first reason why one of them is outside the
        problem's domain, or "".

        All are made from one draw, and differ by their changes alone: a candidate that keeps a
        result as long as a sample of its inputs is the same then keeps it too long.
        """
        for slot in slots:
            seed_slot(seed, slots.start)
            if objection := self._objection(session, slot, variant, seed):
                return objection
        return ""

    def _objection(self, session: Session, slot: int, variant: Variant, seed: bytes) -> str:
        """Fill a slot with a variant; returns the reason why it is outside the
        problem's domain, or "".
        """
        changes = functools.partial(seed_changes, seed, slot)
        try:
            self.fill(session, session.inputs[slot], session.answers_of(slot), variant, changes)
            if (
                variant not in (*input_variants.CHECKED, *input_variants.REACHED)
                or variant in self._objections
            ):
                return ""
            places = variant in input_variants.REPEATED
            moved = self._moved(session, slot, session.answers_of(slot), places=places)
            found = input_domain.objection(moved, session.moved or Moved())
            if not found and variant in input_variants.TIED:
                found = self._undefined(session, slot)
            if not self._problem.by_cases:
                self._objections[variant] = found
            return found
        except Exception as error:  # noqa: BLE001 (in whichever way the problem's code says so)
            if call_errors.is_out_of_memory(error):
                return self._without_memory(session, error)
            raised = f"the reference raises {type(error).__name__}"
            if isinstance(error, TimeoutError) and not self._problem.by_cases:
                self._objections[variant] = raised  # it would take as long in every evaluation
            return raised

    def _without_memory(self, session: Session, error: Exception) -> str:
        """The objection `NO_MEMORY` for a problem that fills the device, which has no memory for
        the copies of its inputs that some variants take.  Raises `error` for any other problem,
        which may get the memory later.
        """
        assert session.arena is not None
        if not session.arena.slots.streamed:
            raise error
        torch.cuda.empty_cache()
        return NO_MEMORY

    def _moved(
        self, session: Session, slot: int, answers: Answers | None = None, *, places: bool = False
    ) -> Moved:
        """Changes of the inputs in a slot, and of the true answer to them, by rounding
        (input_domain.moved).  Of a problem that is computed in pieces, the first piece;
        those that are unknown, of another large problem: none, but for `places`.

        `answers`: views with the expected outputs for these inputs, if those have been made.
        """
        spec = session.spec
        inputs = layout.rebuild(spec.inputs, iter(session.inputs[slot]))
        places &= _has_integers(session)
        unknown = Moved(answer=math.inf if places else 0.0)
        if spec.piece_rows is not None:
            inputs, answers = pieces.cut(inputs, spec.piece_rows, 0), None
        elif not _has_room(session):
            return unknown
        answer = functools.partial(_true_answer, session)
        try:
            known = None if answers is None else answers[1][: session.returned]
            before = answer(_for_truth(session, inputs)) if known is None else known
            return input_domain.moved(
                answer,
                _for_truth(session, inputs),
                before,
                places=places,
                may_choose=session.moved is None or session.moved.may_choose,
            )
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            return unknown

    def _undefined(self, session: Session, slot: int) -> str:
        """The reason why PyTorch does not define the integers of the answer to the inputs in a
        slot; "" if it does.  Those of a large problem count as undefined.
        """
        if not _has_integers(session):
            return ""
        if session.spec.piece_rows is not None or not _has_room(session):
            return UNDEFINED
        inputs = layout.rebuild(session.spec.inputs, iter(session.inputs[slot]))
        with BrokenTies() as ties:
            _true_answer(session, _for_truth(session, inputs))
        return UNDEFINED if ties.were_met or ties.casts_no_number else ""

    def _look_at_usual(self, session: Session, slot: int) -> None:
        """Measure `_moved` for the problem's own inputs, once, in a slot that is still free."""
        if session.moved is None and not self._problem.by_cases:
            self.fill(session, session.inputs[slot], None)
            session.moved = self._moved(session, slot)


def _has_integers(session: Session) -> bool:
    return any(map(is_integer, map(layout.dtype_of, layout.leaves(session.spec.outputs))))


def _has_room(session: Session) -> bool:
    """Test whether memory was reserved for one more answer."""
    return session.arena is None or session.arena.slots.together


def _for_truth(session: Session, inputs: list[Any]) -> list[Any]:
    """Private copies of inputs, as the true answer takes them."""
    if session.twin is None:
        return copy.deepcopy(inputs)
    return list(true_answer.widened(inputs, true_answer.Truth(session.spec.truth)))


def _true_answer(session: Session, given: list[Any]) -> Any:
    if session.twin is None:
        return call(session.model, given)
    return true_answer.call(session.twin, given, true_answer.Truth(session.spec.truth))


def _own_answer(session: Session, inputs: list[Any], variant: Variant) -> Any:
    """The reference's own answer.  Raises TimeoutError if it does not end on changed inputs."""
    if variant == Variant.OWN:
        return call(session.model, inputs)
    with TimeLimit(max(ENDLESS_S, ENDLESS_CALLS * session.spec.call_us / 1e6)):
        return call(session.model, inputs)
