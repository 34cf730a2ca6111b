"""Record of an evaluation's calls: compares every output, and keeps the results."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch

from app.domain.output_checks import FP64_RULE, Correctness, OutputCheck, Trial
from workers.protocol import problem_spec
from workers.protocol.input_variants import CLOSER, Variant
from workers.referee.comparison import correctness, far_off, stale_answers, unwritten
from workers.referee.comparison.nearness import Nearness
from workers.referee.comparison.peer_rules import PeerRules
from workers.referee.comparison.precision_class import precision_class
from workers.referee.session import close_looks
from workers.referee.session.batches import (
    Delivery,
    Part,
    Truth,
    calls_of,
    count_calls,
    in_parts,
    joined,
    joined_runs,
    leaf_views,
)
from workers.referee.session.second_look import SecondLooks

KEPT_FIRST = 5
KEPT_NOTABLE = 16
"""Trials stored in full: the first ones, and notable ones."""

HISTORY_BYTES = 64 << 20
"""Expected outputs of earlier calls that are kept to recognise stale answers; none if they are
made when outputs are verified.
"""

LOOKED_AT = 2
"""First calls that are looked at closely (close_looks.py): code that leaves a part out always does.
"""

CHECK_BYTES = 1 << 30
"""Bytes of expected outputs compared at once; the arithmetic needs several times as much more."""


class Record:
    """Record of one evaluation's calls."""

    def __init__(
        self,
        spec: problem_spec.ProblemSpec,
        arena: problem_spec.Arena,
        truth: Callable[[list[Part]], Truth],
        own_outputs: Callable[[list[Part]], list[torch.Tensor]],
        rule: correctness.Rule,
    ) -> None:
        """`truth`: expected outputs of some calls; `own_outputs`: the reference's own
        outputs; the result of either is valid until the next call of either.  `rule`:
        decides whether an output is right.
        """
        self.rule = rule
        self.calls = 0
        self.near_calls = 0
        """Calls accepted because they are near the reference's own outputs (nearness.py)."""
        self.own_truth_calls = 0
        """Requests for expected outputs of a streamed call that gave the reference's own."""
        self._truth = truth
        self._own_outputs = own_outputs
        self._nearness = Nearness(rule)
        self.failed: list[Trial] = []
        self.deterministic: bool | None = None
        self.propagates_nonfinite: bool | None = None
        self.null_answers: tuple[str, ...] = ()
        self._unwritten = unwritten.UnwrittenElements()
        self.second_looks: SecondLooks | None = None
        """Second looks at wrong calls."""
        self.excused: list[str] = []
        """Variants of the inputs that are outside the problem's domain, with reasons."""
        self._spec = spec
        self._arena = arena
        self._peers = PeerRules()
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

    def verify(self, *deliveries: Delivery, keep: bool = True, known: Truth | None = None) -> bool:
        """Test whether every output of these calls is right.  The calls are recorded
        if `keep`, or if all are right.

        All are compared together because each comparison waits for the device once.  `known`: their
        expected outputs, if the caller has them and they can be compared at once.
        """
        missing = self._nearness.missing
        if (
            keep
            and known is None
            and not self._arena.slots.together
            and 0 < missing < count_calls(deliveries)
        ):
            calls = calls_of(deliveries)
            return all(
                [
                    self.verify(*joined_runs(calls[:missing])),
                    self.verify(*joined_runs(calls[missing:])),
                ]
            )
        beyond, near = (list(deliveries), 0) if known is not None else self._sorted(deliveries)
        compared = list(self._compared(beyond, known=known))
        right = all(all(output.ok) for _, outputs in compared for output in outputs)
        if keep or right:
            self.calls += near
            self.near_calls += near
            for parts, outputs in compared:
                self._record(parts, outputs)
        return right

    def _sorted(self, deliveries: Sequence[Delivery]) -> tuple[list[Delivery], int]:
        """Parts of the deliveries that must be compared with expected outputs, and the number of
        the other calls, which are near the reference's own outputs.

        All calls are compared if expected outputs are made together with the inputs,
        or if inputs are unusual.
        """
        unusual = any(delivery.batch.variants for delivery in deliveries)
        if unusual or not self.compares_own():
            return list(deliveries), 0
        beyond: list[tuple[Delivery, int]] = []
        near = 0
        for parts in in_parts(deliveries, self.own_at_once):
            for (part, call), is_near in zip(
                calls_of(parts), self._nearness.are_near(*self._beside(parts)), strict=True
            ):
                if is_near and not part.changed[call] and not part.late[call]:
                    near += 1
                else:
                    beyond.append((part, call))
        return joined_runs(beyond), near

    def compares_own(self, *, gross: bool = False) -> bool:
        """Test whether distances from the reference's own outputs decide, where they
        can: expected outputs take a request of their own, and the reference's errors
        are known (Nearness.applies).
        """
        return not self._arena.slots.together and self._nearness.applies(gross=gross)

    def _beside(self, parts: list[Delivery]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Outputs of some calls, and the reference's own: (calls, elements) each."""
        outputs = leaf_views(joined([part.outputs for part in parts]), self._arena.outputs)
        return outputs, self._own_outputs([(part.batch, part.first, part.count) for part in parts])

    def take_near(self, delivery: Delivery) -> bool:
        """Count calls on unusual inputs as right if all outputs are near the reference's own and no
        input has changed; else count nothing.
        """
        if any(delivery.changed) or any(delivery.late):
            return False
        if not all(
            all(self._nearness.are_near(*self._beside(parts), gross=True))
            for parts in in_parts([delivery], self.own_at_once)
        ):
            return False
        self.calls += delivery.count
        self.near_calls += delivery.count
        return True

    def are_right(self, delivery: Delivery) -> list[bool]:
        """Per call, whether all outputs are right, without recording the calls or
        examining wrong outputs.
        """
        if self.compares_own() and not delivery.batch.variants:
            decided = [
                right
                for parts in in_parts([delivery], self.own_at_once)
                for right in self._nearness.decided(*self._beside(parts))
            ]
            if None not in decided:
                return [bool(right) for right in decided]
        compared = self._compared([delivery], brief=True)
        return [
            all(call)
            for _, outputs in compared
            for call in zip(*(output.ok for output in outputs), strict=True)
        ]

    def _compared(
        self,
        deliveries: Sequence[Delivery],
        *,
        brief: bool = False,
        known: Truth | None = None,
    ) -> Iterator[tuple[list[Delivery], list[correctness.ComparedOutput]]]:
        """Deliveries in parts with as many calls as can be compared at once, each
        with its compared outputs.  `brief`: determine only whether outputs are right.
        """
        for parts in in_parts(deliveries, self.calls_at_once):
            yield parts, self._compare(parts, brief=brief, known=known)

    def _compare(
        self,
        parts: list[Delivery],
        *,
        brief: bool,
        known: Truth | None,
    ) -> list[correctness.ComparedOutput]:
        """The compared outputs of some calls, by the rule, which is relaxed on unusual inputs."""
        usual = [part.batch.variant(part.first) == Variant.OWN for part in parts]
        most = max(CLOSER.get(part.batch.variant(part.first), math.inf) for part in parts)
        unusual = replace(self.rule, gross=True, most=most)
        rule = self.rule if all(usual) else unusual
        leaves = range(len(self._arena.outputs.leaves))
        got = leaf_views(joined([part.outputs for part in parts]), self._arena.outputs)
        expected, baseline = known or self._truth(
            [(part.batch, part.first, part.count) for part in parts]
        )
        if leaves and self.calls < KEPT_FIRST and all(usual) and not brief:
            self._peers.apply(got, baseline)
        shapes = [tuple(leaf.get("shape", ())) for leaf in self._arena.outputs.leaves]
        compared = [
            correctness.compare(
                got[leaf],
                expected[leaf],
                baseline[leaf],
                parts[0].batch.poison,
                leaf,
                shapes[leaf],
                rule,
                closely=not brief,
            )
            for leaf in leaves
        ]
        if self.calls < LOOKED_AT and not rule.gross and rule.tolerance is None and not brief:
            truth, most = Truth(expected, baseline), LOOKED_AT - self.calls
            compared = close_looks.looked_at(compared, parts, truth, self._arena, most)
        room = max(0, KEPT_FIRST + KEPT_NOTABLE - len(self._kept))
        return self._reviewed(
            parts, compared if brief else correctness.located(compared, expected, room), expected
        )

    def _reviewed(
        self,
        parts: list[Delivery],
        compared: list[correctness.ComparedOutput],
        expected: list[torch.Tensor],
    ) -> list[correctness.ComparedOutput]:
        """The outputs after a second look at wrong calls."""
        wrong = far_off.undecided(compared, expected)
        if not wrong or self.second_looks is None:
            return compared
        alone = [part.part(call, call + 1) for part in parts for call in range(part.count)]
        # Copies, because asking may overwrite the expected outputs.
        exact = {call: [leaf[call : call + 1].clone() for leaf in expected] for call in wrong}
        for call in wrong:
            compared = self.second_looks.reviewed(
                alone[call],
                call,
                compared,
                exact[call],
                lambda slot: leaf_views(slot, self._arena.outputs),
            )
        return compared

    def _record(self, parts: list[Delivery], outputs: list[correctness.ComparedOutput]) -> None:
        index = 0
        for delivery in parts:
            for offset in range(delivery.count):
                self._note(delivery, offset, outputs, index)
                index += 1

    def _note(
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
            self._nearness.note(outputs, index)
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
            peer_rules=self._peers.results(),
            tolerance=(
                FP64_RULE
                if self.rule.tolerance is None
                else "rtol={:g},atol={:g}".format(*self.rule.tolerance)
            ),
            truth=self._spec.truth,
            excused=tuple(dict.fromkeys(self.excused)) if self._spec.case is None else (),
        )
