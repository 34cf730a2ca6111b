"""Verification: every output of some calls is compared, and the calls are recorded."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import torch

from workers.protocol import problem_spec
from workers.protocol.input_variants import CLOSER, Variant
from workers.referee.comparison import correctness, far_off
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
from workers.referee.session.questions import Questions
from workers.referee.session.record import KEPT_FIRST, Record

LOOKED_AT = 2
"""First calls that are looked at closely (close_looks.py): code that leaves a part out always does.
"""


class ReferenceAnswers(Protocol):
    """The reference's answers to calls (draws.py); outputs are valid until the next request."""

    @property
    def questions(self) -> Questions:
        """Questions about the candidate's answers."""

    def truth(self, parts: Sequence[Part]) -> Truth:
        """Expected outputs of some calls."""

    def own_outputs(self, parts: Sequence[Part]) -> list[torch.Tensor]:
        """The reference's outputs in its own precision."""


class Verification:
    """Verification of one evaluation's calls.  It is made anew for each use: kept by the object
    that gives the reference's answers, it would keep that object, and gigabytes of device memory,
    until Python's next collection of cycles.
    """

    def __init__(
        self, record: Record, reference: ReferenceAnswers, arena: problem_spec.Arena
    ) -> None:
        self._record = record
        self._reference = reference
        self._arena = arena

    def verify(self, *deliveries: Delivery, keep: bool = True, known: Truth | None = None) -> bool:
        """Test whether every output of these calls is right.  The calls are recorded
        if `keep`, or if all are right.

        All are compared together because each comparison waits for the device once.  `known`: their
        expected outputs, if the caller has them and they can be compared at once.
        """
        missing = self._record.nearness.missing
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
            self._record.calls += near
            self._record.near_calls += near
            for parts, outputs in compared:
                self._record.note(parts, outputs)
        return right

    def _sorted(self, deliveries: Sequence[Delivery]) -> tuple[list[Delivery], int]:
        """Parts of the deliveries that must be compared with expected outputs, and the number of
        the other calls, which are near the reference's own outputs.

        All calls are compared if expected outputs are made together with the inputs,
        or if inputs are unusual.
        """
        unusual = any(delivery.batch.variants for delivery in deliveries)
        if unusual or not self._record.compares_own():
            return list(deliveries), 0
        beyond: list[tuple[Delivery, int]] = []
        near = 0
        for parts in in_parts(deliveries, self._record.own_at_once):
            for (part, call), is_near in zip(
                calls_of(parts), self._record.nearness.are_near(*self._beside(parts)), strict=True
            ):
                if is_near and not part.changed[call] and not part.late[call]:
                    near += 1
                else:
                    beyond.append((part, call))
        return joined_runs(beyond), near

    def _beside(self, parts: list[Delivery]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Outputs of some calls, and the reference's own: (calls, elements) each."""
        outputs = leaf_views(joined([part.outputs for part in parts]), self._arena.outputs)
        return outputs, self._reference.own_outputs(
            [(part.batch, part.first, part.count) for part in parts]
        )

    def take_near(self, delivery: Delivery) -> bool:
        """Count calls on unusual inputs as right if all outputs are near the reference's own and no
        input has changed; else count nothing.
        """
        if any(delivery.changed) or any(delivery.late):
            return False
        if not all(
            all(self._record.nearness.are_near(*self._beside(parts), gross=True))
            for parts in in_parts([delivery], self._record.own_at_once)
        ):
            return False
        self._record.calls += delivery.count
        self._record.near_calls += delivery.count
        return True

    def are_right(self, delivery: Delivery) -> list[bool]:
        """Per call, whether all outputs are right, without recording the calls or
        examining wrong outputs.
        """
        if self._record.compares_own() and not delivery.batch.variants:
            decided = [
                right
                for parts in in_parts([delivery], self._record.own_at_once)
                for right in self._record.nearness.decided(*self._beside(parts))
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
        for parts in in_parts(deliveries, self._record.calls_at_once):
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
        unusual = replace(self._record.rule, gross=True, most=most)
        rule = self._record.rule if all(usual) else unusual
        leaves = range(len(self._arena.outputs.leaves))
        got = leaf_views(joined([part.outputs for part in parts]), self._arena.outputs)
        expected, baseline = known or self._reference.truth(
            [(part.batch, part.first, part.count) for part in parts]
        )
        if leaves and self._record.calls < KEPT_FIRST and all(usual) and not brief:
            self._record.peers.apply(got, baseline)
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
        new = LOOKED_AT - self._record.calls
        if new > 0 and not rule.gross and rule.tolerance is None and not brief:
            truth = Truth(expected, baseline)
            compared = close_looks.looked_at(compared, parts, truth, self._arena, new)
        if not brief:
            compared = correctness.located(compared, expected, self._record.room)
        return self._reviewed(parts, compared, expected)

    def _reviewed(
        self,
        parts: list[Delivery],
        compared: list[correctness.ComparedOutput],
        expected: list[torch.Tensor],
    ) -> list[correctness.ComparedOutput]:
        """The outputs after a second look at wrong calls."""
        wrong = far_off.undecided(compared, expected)
        if not wrong:
            return compared
        alone = [part.part(call, call + 1) for part in parts for call in range(part.count)]
        # Copies, because asking may overwrite the expected outputs.
        exact = {call: [leaf[call : call + 1].clone() for leaf in expected] for call in wrong}
        for call in wrong:
            compared = self._record.second_looks.reviewed(
                self._reference.questions.second_look,
                alone[call],
                call,
                compared,
                exact[call],
                lambda slot: leaf_views(slot, self._arena.outputs),
            )
        return compared
