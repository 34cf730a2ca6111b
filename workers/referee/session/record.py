"""Record of an evaluation's calls: findings over all of them, and trials to be stored in full."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import torch

from app.domain.output_checks import FP64_RULE, Correctness, OutputCheck, Trial
from workers.protocol import problem_spec
from workers.protocol.input_variants import Variant
from workers.referee.comparison import correctness, stale_answers, unwritten
from workers.referee.comparison.nearness import Nearness
from workers.referee.comparison.peer_rules import PeerRules
from workers.referee.comparison.precision_class import precision_class
from workers.referee.session.batches import Delivery, leaf_views
from workers.referee.session.second_look import SecondLooks

KEPT_FIRST = 5
KEPT_NOTABLE = 16
"""Trials stored in full: the first ones, and notable ones."""

HISTORY_BYTES = 64 << 20
"""Expected outputs of earlier calls that are kept to recognise stale answers; none if they are
made when outputs are verified.
"""

CHECK_BYTES = 1 << 30
"""Bytes of expected outputs compared at once; the arithmetic needs several times as much more."""


class Record:
    """Record of one evaluation's calls."""

    def __init__(
        self,
        spec: problem_spec.ProblemSpec,
        arena: problem_spec.Arena,
        rule: correctness.Rule,
    ) -> None:
        """`rule`: decides whether an output is right."""
        self.rule = rule
        self.calls = 0
        self.near_calls = 0
        """Calls accepted because they are near the reference's own outputs (nearness.py)."""
        self.own_truth_calls = 0
        """Requests for expected outputs of a streamed call that gave the reference's own."""
        self.nearness = Nearness(rule)
        self.failed: list[Trial] = []
        self.deterministic: bool | None = None
        self.propagates_nonfinite: bool | None = None
        self.null_answers: tuple[str, ...] = ()
        self._unwritten = unwritten.UnwrittenElements()
        self.second_looks = SecondLooks()
        self.excused: list[str] = []
        """Variants of the inputs that are outside the problem's domain, with reasons."""
        self._spec = spec
        self._arena = arena
        self.peers = PeerRules()
        self._worst_l2 = 0.0
        self._kept: list[Trial] = []
        most = arena.inputs.slots if arena.slots.together else max(1, arena.slots.expected)
        self.calls_at_once = max(1, min(most, CHECK_BYTES // arena.expected.slot_bytes))
        """Calls compared with expected outputs at once, as memory allows."""
        self.own_at_once = max(
            1, min(arena.baseline.slots, CHECK_BYTES // max(1, arena.baseline.slot_bytes))
        )
        """Calls compared with the reference's own outputs at once.  Each comparison waits for the
        reference and for the device, which other evaluations use as well.
        """
        length = min(64, HISTORY_BYTES // max(1, arena.expected.slot_bytes))
        length = max(2, length) if arena.slots.together else length
        self._history: deque[tuple[int, list[torch.Tensor], int]] = deque(maxlen=length)
        """Call number, its expected outputs, and their slot; not the batch, whose
        inputs are no longer needed.
        """

    def compares_own(self, *, gross: bool = False) -> bool:
        """Test whether distances from the reference's own outputs decide, where they
        can: expected outputs take a request of their own, and the reference's errors
        are known (Nearness.applies).
        """
        return not self._arena.slots.together and self.nearness.applies(gross=gross)

    @property
    def room(self) -> int:
        """Number of further trials that are stored in full."""
        return max(0, KEPT_FIRST + KEPT_NOTABLE - len(self._kept))

    def note(self, parts: list[Delivery], outputs: list[correctness.ComparedOutput]) -> None:
        """Record calls with their compared outputs."""
        index = 0
        for delivery in parts:
            for offset in range(delivery.count):
                self._note_call(delivery, offset, outputs, index)
                index += 1

    def _note_call(
        self, delivery: Delivery, offset: int, outputs: list[correctness.ComparedOutput], index: int
    ) -> None:
        """Record one call of a delivery; `index`: its index among the compared calls."""
        batch, slot = delivery.batch, delivery.first + offset
        ok = all(output.ok[index] for output in outputs)
        inputs_changed = tuple(
            i for i in delivery.changed[offset] if i not in self._spec.mutated_inputs
        )
        notable = not ok or inputs_changed or delivery.late[offset]
        if notable or self.calls < KEPT_FIRST:
            checks = [output.check(index) for output in outputs]
            checks = (
                checks if ok else self._with_unwritten(delivery.part(offset, offset + 1), checks)
            )
            trial = Trial(
                call=self.calls,
                seed=f"{batch.seed.hex()}/{slot}",
                ok=ok,
                outputs=tuple(
                    checks if ok else self._with_stale(delivery.part(offset, offset + 1), checks)
                ),
                late_writes=delivery.late[offset],
                variant=batch.variant(slot).name.lower(),
                inputs_changed=inputs_changed,
            )
            self._keep(trial)
        if batch.variant(slot) == Variant.OWN:
            self.nearness.note(outputs, index)
            self._worst_l2 = max(
                [self._worst_l2, *(output.rel_l2(index) or 0.0 for output in outputs)]
            )
        if batch.expected:
            self._history.append((self.calls, batch.expected, slot))
        self.calls += 1

    def _with_stale(self, delivery: Delivery, checks: list[OutputCheck]) -> list[OutputCheck]:
        """Checks of one call's outputs; wrong ones name the earlier call that they
        answer, if any.
        """
        found = []
        for check, got in zip(
            checks, leaf_views(delivery.outputs, self._arena.outputs), strict=True
        ):
            earlier = (
                (call, expected[check.index][slot]) for call, expected, slot in self._history
            )
            found.append(
                check
                if check.ok
                else replace(check, stale_call=stale_answers.earlier_call(got[0], check, earlier))
            )
        return found

    def _with_unwritten(self, delivery: Delivery, checks: list[OutputCheck]) -> list[OutputCheck]:
        """Checks of one wrong call's outputs, with the number of unwritten elements."""
        poison, number = delivery.batch.poison, delivery.batch.number
        found = []
        for check, got in zip(
            checks, leaf_views(delivery.outputs, self._arena.outputs), strict=True
        ):
            count = 0 if check.ok else self._unwritten.count(got[0], check.index, poison, number)
            found.append(replace(check, unwritten=count, worst=None if count else check.worst))
        return found

    def _keep(self, trial: Trial) -> None:
        if not trial.ok:
            self.failed.append(trial)
        if trial.call < KEPT_FIRST or len(self._kept) < KEPT_FIRST + KEPT_NOTABLE:
            self._kept.append(trial)

    def correctness(self) -> Correctness:
        """Correctness over all calls so far."""
        return Correctness(
            calls=self.calls,
            near_calls=self.near_calls,
            own_truth_calls=(
                0 if self._spec.truth == problem_spec.OWN_TRUTH else self.own_truth_calls
            ),
            failed_calls=len(self.failed),
            trials=tuple(self._kept),
            mode="train" if self._spec.training else "eval",
            has_inputs=bool(self._arena.inputs.leaves),
            output_constant=self._spec.output_constant,
            null_answers=self.null_answers,
            insensitive_to=self._spec.insensitive_to,
            deterministic=self.deterministic,
            propagates_nonfinite=self.propagates_nonfinite,
            precision_class=None if self.failed else precision_class(self._worst_l2),
            peer_rules=self.peers.results(),
            tolerance=(
                FP64_RULE
                if self.rule.tolerance is None
                else "rtol={:g},atol={:g}".format(*self.rule.tolerance)
            ),
            truth=self._spec.truth,
            excused=tuple(dict.fromkeys(self.excused)) if self._spec.case is None else (),
        )
