"""Two made-up sides with a clock of their own, and a benchmark of them, for tests."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from app.domain.evaluation import Timing
from workers.protocol.control_channel import Delivering
from workers.referee.host.health import Health
from workers.referee.host.uncharged_time import UnchargedTime
from workers.referee.session.batches import Batch, Delivery, Times
from workers.referee.timing import blocks, measurements, paired_benchmark, sizing
from workers.referee.timing.quiet_host import QuietHost

HANDOVER_US = 180.0
NOTHING = torch.zeros(0)


@dataclass
class Side:
    """A session."""

    call_us: float
    mapped_calls: int = 1 << 16
    delivering: Delivering = Delivering.COPY
    new_to_its_core: bool = True
    process: Any = field(default_factory=lambda: SimpleNamespace(pid=0))


class Sides:
    """Trials that compute nothing; the sides say the time."""

    def __init__(
        self, reference_us: float, candidate_us: float, *, slots: int, noise: random.Random
    ) -> None:
        self.reference, self.candidate = Side(reference_us), Side(candidate_us)
        self.slots = slots
        self.device_lock = SimpleNamespace(
            shared=nullcontext, uncharged=UnchargedTime(), wait_for_apart=lambda seconds: None
        )
        self.exclusive = nullcontext
        self.bytes_per_call = 1 << 20
        self.draw_us = 40.0
        self.surveys = True
        self.failed: list[object] = []
        self.record = SimpleNamespace(calls_at_once=1000)
        self.deadline = SimpleNamespace(left_s=60.0)
        self.streams = False
        self.gave_back = False
        self.in_block = slots
        self.surveyed: list[int] = []
        self.drawn = 0
        self.verified = 0
        self.alone = False
        self.stretches = 0
        """How often the device was had alone."""
        self.now = 0.0
        """Seconds, of a clock that nothing else turns."""
        self.late_us = 0.0
        """By how much both sides may wake late, every time …"""
        self.late_until_s = 0.0
        """… up to then."""
        self.reading_s = 0.001
        self.ran: tuple[Side | None, float] = (None, 0.0)
        """Side that ran last, and until when: its data leave the caches of the core soon."""
        self.awake: Side | None = None
        """Side of the last hand-over."""
        self._noise = noise

    @contextmanager
    def timed_by(self, stopwatch: object) -> Iterator[None]:
        self.stretches += 1
        self.alone = True
        self.reference.new_to_its_core = self.candidate.new_to_its_core = True
        yield
        self.alone = False

    def draw(self, count: int) -> Batch:
        assert count <= self.slots
        self.drawn += count
        inputs = torch.zeros(count, 1)
        return Batch(number=0, seed=b"", inputs=inputs, expected=[], baseline=[], poison=NOTHING)

    def looked_through(self, wanted: list[tuple[Side, int]], *, alike: bool = True) -> None:
        self.drawn += max((count for _, count in wanted), default=0)
        for side, count in wanted:
            self.surveyed.append(count)
            side.mapped_calls, side.delivering = count, Delivering.HOLD

    def verify(self, *deliveries: Delivery) -> bool:
        self.verified += sum(delivery.count for delivery in deliveries)
        return True

    def _block(self, side: Side, calls: int) -> Times:
        assert 0 < calls <= side.mapped_calls
        wall_us = HANDOVER_US + calls * (
            side.call_us + (3.0 if side.delivering == Delivering.COPY else 0.0)
        )
        if not self.alone:  # others take turns at the device
            wall_us += self._noise.choice(
                [self._noise.uniform(0, 4000), self._noise.uniform(0, 40_000)]
            )
        elif self.awake is not side:
            wall_us += 600.0
        elif side.new_to_its_core:
            wall_us += self._noise.uniform(500, 5000)
            side.new_to_its_core = False
        elif self._noise.random() < 0.1:  # a stall
            wall_us += self._noise.uniform(50, 5000)
        before, until = self.ran
        if side.call_us < 50 and side is before and self.now - until < 0.0015:
            wall_us *= 0.95
        wall_us += self._late()
        self.awake = None
        self.now += wall_us / 1e6
        self.ran = (side, self.now)
        return Times(round(wall_us * 1000), round(wall_us * 1000))

    def release_spare_memory(self) -> None:
        """No memory is held here."""

    def warm(self, side: Side) -> None:
        """A call that does not count."""

    def hand_over(self, side: Side) -> Times:
        late = side.new_to_its_core or self._noise.random() < 0.2
        late_us = self._noise.uniform(100, 500) if late else self._noise.uniform(0, 5)
        late_us += self._late()
        self.now += 0.001
        self.awake = side
        wall_ns = round((HANDOVER_US + late_us) * 1000)
        return Times(wall_ns, wall_ns)

    def pass_by(self, seconds: float) -> None:
        """No other process runs meanwhile."""
        self.now += seconds

    def _late(self) -> float:
        return self._noise.uniform(0, self.late_us) if self.now < self.late_until_s else 0.0

    def run_reference(self, batch: Batch, first: int, count: int) -> Times:
        assert first + count <= batch.slots
        return self._block(self.reference, count) if count else self.hand_over(self.reference)

    def run_candidate(self, batch: Batch, first: int, count: int) -> Delivery:
        assert first + count <= batch.slots
        times = self._block(self.candidate, count)
        self.now += self.reading_s
        none: list[tuple[int, ...]] = [()] * count
        return Delivery(
            batch=batch,
            first=first,
            count=count,
            times=times,
            outputs=NOTHING,
            pointers=[],
            changed=none,
            late=none,
        )


def _venue() -> QuietHost:
    return QuietHost(
        core_waker=SimpleNamespace(awake=nullcontext),  # type: ignore[arg-type]
        health=Health(torch.device("cpu")),
        stopwatch=None,
        cores=None,
    )


def _benchmark(
    sides: Sides,
    budget_s: float = 0.08,
    reference_us: float | None = None,
    guess: sizing.Guess | None = None,
    block_us: float = 2000.0,
    *,
    alone: bool = True,
) -> Timing:
    terms = sizing.TimingBudget(
        budget_s=budget_s, block_us=block_us, round_bytes=1 << 31, floor_us=0.0
    )
    few = sides.run_candidate(sides.draw(min(4, sides.slots)), 0, min(4, sides.slots))
    clock = SimpleNamespace(monotonic=lambda: sides.now)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paired_benchmark, "time", clock)
        patch.setattr(paired_benchmark, "survey", Sides.looked_through)
        patch.setattr(measurements, "time", clock)
        patch.setattr(blocks, "secrets", SimpleNamespace(randbelow=random.Random(0).randrange))
        patch.setattr(blocks, "time", SimpleNamespace(sleep=sides.pass_by))
        guess = guess or sizing.guess(sides, few, reference_us)  # type: ignore[arg-type]
        timing = paired_benchmark.run(sides, _venue(), terms, guess, alone=alone)  # type: ignore[arg-type]
    assert timing is not None
    return timing
