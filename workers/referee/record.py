"""What the calls of an evaluation have shown: every output compared, and what is remembered of it."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import torch

from app.domain.evaluation import Correctness, OutputCheck, PeerRule, Trial
from workers import spec
from workers.referee import compare
from workers.referee.batches import Delivery, columns
from workers.variants import Variant

KEPT_FIRST = 5
KEPT_NOTABLE = 16
"""Trials stored in full: the first ones, and those that something is to be said about."""

HISTORY_BYTES = 64 << 20
"""Expected outputs of earlier calls that are kept to recognise stale answers."""

PEER_TOLERANCES = {"allclose_1e-2": 1e-2, "allclose_1e-4": 1e-4}
"""KernelBench's rule of 2025 (KernelGYM's, too) and its later one for fp32."""

CHECK_BYTES = 512 << 20
"""Of expected outputs, checked at once; the arithmetic takes some times as much besides."""


class Record:
    """Of one evaluation."""

    def __init__(self, agreed: spec.Spec, place: spec.Arena, rule: compare.Rule) -> None:
        """`rule`: when an output counts as right."""
        self.rule = rule
        self.calls = 0
        self.failed: list[Trial] = []
        self.deterministic: bool | None = None
        self.propagates_nonfinite: bool | None = None
        self.null_answers: tuple[str, ...] = ()
        self._spec = agreed
        self._place = place
        self._peers = {name: [0, 0] for name in PEER_TOLERANCES}
        self._worst_l2 = 0.0
        self._kept: list[Trial] = []
        length = max(2, min(64, HISTORY_BYTES // max(1, place.expected.slot_bytes)))
        self._history: deque[tuple[int, list[torch.Tensor]]] = deque(maxlen=length)

    def verify(self, delivery: Delivery, *, keep: bool = True) -> bool:
        """Whether every output of these calls is right; remembered as trials if `keep`, or if it is."""
        usual = delivery.batch.variant == Variant.OWN
        per_output = self.check(delivery, self.rule if usual else replace(self.rule, gross=True))
        right = all(check.ok for output in per_output for check in output)
        if keep or right:
            self._record(delivery, [[output[call] for output in per_output] for call in range(delivery.count)])
        return right

    def check(self, delivery: Delivery, rule: compare.Rule) -> list[list[OutputCheck]]:
        """What `compare` says of each output, per output, per call; nothing is remembered.  So many calls at a time as
        memory can be spared for."""
        at_once = max(1, CHECK_BYTES // self._place.expected.slot_bytes)
        parts = [
            self._check_some(delivery, rule, start, min(start + at_once, delivery.count))
            for start in range(0, delivery.count, at_once)
        ]
        return [[check for part in parts for check in part[index]] for index in range(len(self._place.outputs.leaves))]

    def _check_some(self, delivery: Delivery, rule: compare.Rule, start: int, stop: int) -> list[list[OutputCheck]]:
        batch = delivery.batch
        got = columns(delivery.outputs[start:stop], self._place.outputs)
        poison = columns(batch.poison[None], self._place.outputs)
        rows = slice(delivery.first + start, delivery.first + stop)
        if self.calls < KEPT_FIRST and batch.variant == Variant.OWN:
            self._ask_peers(got, [leaf[rows] for leaf in batch.baseline])
        return [
            compare.outputs(
                got[index], batch.expected[index][rows], batch.baseline[index][rows], poison[index][0],
                [(call, leaves[index]) for call, leaves in self._history], index, tuple(leaf.get("shape", ())), rule,
            )
            for index, leaf in enumerate(self._place.outputs.leaves)
        ]  # fmt: skip

    def _ask_peers(self, got: list[torch.Tensor], baseline: list[torch.Tensor]) -> None:
        """What others' rules say of the same outputs."""
        for name, tolerance in PEER_TOLERANCES.items():
            answers = [compare.agree(mine, theirs, tolerance) for mine, theirs in zip(got, baseline, strict=True)]
            for call in zip(*answers, strict=True):
                self._peers[name][0] += all(call)
                self._peers[name][1] += 1

    def _record(self, delivery: Delivery, checks: list[list[OutputCheck]]) -> None:
        for offset, outputs in enumerate(checks):
            slot = delivery.first + offset
            trial = Trial(
                call=self.calls, seed=f"{delivery.batch.seed.hex()}/{slot}", ok=all(check.ok for check in outputs),
                outputs=tuple(outputs), late_writes=delivery.late[offset], variant=delivery.batch.variant.name.lower(),
                inputs_changed=tuple(i for i in delivery.changed[offset] if i not in self._spec.mutated_inputs),
            )  # fmt: skip
            self._keep(trial)
            if delivery.batch.variant == Variant.OWN:
                self._worst_l2 = max([self._worst_l2, *(check.rel_l2 or 0.0 for check in outputs)])
            self._history.append((self.calls, [leaf[slot] for leaf in delivery.batch.expected]))
            self.calls += 1

    def _keep(self, trial: Trial) -> None:
        notable = not trial.ok or trial.inputs_changed or trial.late_writes
        if not trial.ok:
            self.failed.append(trial)
        if trial.call < KEPT_FIRST or (notable and len(self._kept) < KEPT_FIRST + KEPT_NOTABLE):
            self._kept.append(trial)

    def correctness(self) -> Correctness:
        """What all calls so far have shown."""
        return Correctness(
            calls=self.calls, failed_calls=len(self.failed), trials=tuple(self._kept),
            mode="train" if self._spec.training else "eval", output_constant=self._spec.output_constant,
            null_answers=self.null_answers, insensitive_to=self._spec.insensitive_to,
            deterministic=self.deterministic, propagates_nonfinite=self.propagates_nonfinite,
            precision_class=None if self.failed else compare.precision_class(self._worst_l2),
            peer_rules=tuple(PeerRule(name=name, passed_calls=a, calls=b) for name, (a, b) in self._peers.items()),
            tolerance="fp64" if self.rule.tolerance is None else "rtol={:g},atol={:g}".format(*self.rule.tolerance),
        )  # fmt: skip
