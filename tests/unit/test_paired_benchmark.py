"""A whole benchmark against made-up sides, with blocks disturbed as those on a GPU host are."""

from __future__ import annotations

import math
import random
import statistics
from types import SimpleNamespace

import pytest
import torch

from app.domain.evaluation import Block
from tests.unit.made_up_sides import HANDOVER_US, Side, Sides, _benchmark, _venue
from workers.referee.host.health import Health
from workers.referee.session.batches import Delivery, Times
from workers.referee.session.fault_attribution import Fault
from workers.referee.timing import blocks, measurements, sizing, unpaired


@pytest.mark.parametrize(
    ("reference_us", "candidate_us"), [(25, 25), (12, 25), (60, 50), (400, 320), (3000, 2400)]
)
def test_blocks_last_as_long_as_they_should_however_disturbed_the_first_looks_were(
    reference_us: float, candidate_us: float
) -> None:
    for seed in range(40):
        sides = Sides(reference_us, candidate_us, slots=128, noise=random.Random(seed))
        timing = _benchmark(sides)
        counted = [block for block in timing.blocks if block.calls]
        assert timing.groups >= 5
        assert timing.ci_low <= reference_us / candidate_us <= timing.ci_high
        if timing.groups >= 6:  # fewer have a mean, in which stalls count
            assert timing.speedup == pytest.approx(reference_us / candidate_us, rel=0.03)
        most_us = 64 * min(reference_us, candidate_us)  # the buffer holds so many
        wall_us = statistics.median(block.wall_us for block in counted) - HANDOVER_US
        assert 0.6 * min(2000, most_us) <= wall_us <= 2 * max(2000, reference_us), seed
        assert max(sides.surveyed) <= 64
        assert len(sides.surveyed) <= 4


def test_with_more_time_there_are_more_inputs_for_longer_blocks() -> None:
    bounds = (2000.0, 8000.0)
    assert [
        sizing.most_slots(128, budget_s, bounds) for budget_s in (0.0, 0.08, 0.12, 0.3, 2.0)
    ] == [
        128,
        128,
        192,
        256,
        256,
    ]
    assert sizing.most_slots(64, 2.0, (3000.0, 3000.0)) == 64
    walls_us = []
    for slots in (128, 256):
        sides = Sides(60, 60, slots=slots, noise=random.Random(4))
        timing = _benchmark(sides, budget_s=0.3, block_us=sizing.block_us(0.3, bounds))
        assert timing.speedup == pytest.approx(1.0, rel=0.01)
        walls_us.append(statistics.median(block.wall_us for block in timing.blocks if block.calls))
    assert walls_us[0] < 5000 < walls_us[1]


@pytest.mark.parametrize("known_us", [20, 25, 300])
def test_what_is_known_of_a_reference_need_not_be_right(known_us: float) -> None:
    for seed in range(10):
        sides = Sides(25, 30, slots=128, noise=random.Random(seed))
        timing = _benchmark(sides, reference_us=known_us)
        assert timing.groups >= 6
        assert timing.speedup == pytest.approx(25 / 30, rel=0.03)
        assert statistics.median(block.calls for block in timing.blocks if block.calls) > 40
        for group in range(timing.groups):
            walls_us = [block.wall_us for block in timing.blocks if block.group == group]
            assert max(walls_us) < 2 * min(walls_us) + 5000  # a stall
            calls = [block.calls for block in timing.blocks if block.group == group]
            assert max(calls) <= 2.5 * min(calls), (seed, group)


@pytest.mark.parametrize(("draw_us", "stretches"), [(100.0, (1.0, 1.5)), (300.0, (2.0, 3.0))])
def test_short_calls_are_looked_at_in_the_first_round_where_inputs_are_cheap(
    draw_us: float, stretches: tuple[float, float]
) -> None:
    """However wrong the guess is; with dear inputs the device is had alone for a look first."""
    found = []
    for seed, apparent_us in enumerate((30.0, 90.0, 250.0, 900.0) * 5):
        sides = Sides(25, 40, slots=128, noise=random.Random(seed))
        sides.draw_us = draw_us
        timing = _benchmark(
            sides, guess=sizing.Guess(reference_us=30.0, candidate_us=apparent_us, known=True)
        )
        found.append(sides.stretches)
        assert timing.groups >= 5
        assert timing.ci_low <= 25 / 40 <= timing.ci_high
        counted = [block for block in timing.blocks if block.calls]
        assert statistics.median(block.calls for block in counted if block.side == "candidate") > 35
    assert stretches[0] <= statistics.mean(found) <= stretches[1]


def test_where_memory_is_for_two_calls_there_are_groups_all_the_same() -> None:
    sides = Sides(700, 500, slots=2, noise=random.Random(1))
    timing = _benchmark(sides, budget_s=0.3)
    assert sides.drawn <= 2 * (timing.groups + 2) + 8, (
        "its first group counts, because there was nothing to choose"
    )
    assert timing.groups >= 6
    assert timing.speedup == pytest.approx(1.4, rel=0.2)
    assert {block.calls for block in timing.blocks} == {0, 1}


@pytest.mark.parametrize("until_s", [0.2, 1000.0])
def test_where_both_wake_late_every_time_there_is_another_benchmark(until_s: float) -> None:
    """A benchmark with a wide interval is repeated, as long as it may get better."""
    held, near = 0, 0
    for seed in range(20):
        sides = Sides(1400, 700, slots=2, noise=random.Random(seed))
        sides.late_us, sides.late_until_s = 4000.0, until_s
        timing = _benchmark(sides)
        assert timing.groups >= 6
        held += timing.ci_low <= 2.0 <= timing.ci_high
        near += 1.95 <= timing.speedup <= 2.05
    assert held >= 19
    assert near >= (19 if until_s < 1 else 0)


class BusySides(Sides):
    """Sides with a device that goes on working after each block."""

    def _block(self, side: Side, calls: int) -> Times:
        return super()._block(side, calls)._replace(settled_ns=20_000_000)


def test_a_pair_that_others_disturb_in_every_attempt_has_no_result_and_alone_it_has_one() -> None:
    sides = BusySides(400, 320, slots=128, noise=random.Random(3))
    with pytest.raises(Fault) as caught:
        _benchmark(sides, alone=False)
    assert caught.value.disturbed
    sides = BusySides(400, 320, slots=128, noise=random.Random(3))
    assert _benchmark(sides).stop_reason


def test_a_slow_candidate_is_decided_by_three_groups() -> None:
    timing = _benchmark(Sides(100, 9000, slots=128, noise=random.Random(2)))
    assert (timing.stop_reason, timing.groups) == ("decided", 3)
    assert timing.speedup < 1 / 5


def test_what_is_drawn_is_hardly_more_than_what_is_used() -> None:
    sides = Sides(30, 30, slots=128, noise=random.Random(3))
    timing = _benchmark(sides)
    assert timing.groups <= 7
    assert sides.drawn <= 2.5 * timing.calls_per_side


def _own_time(sides: Sides, apparent_us: float, budget_s: float = 0.08) -> unpaired.UnpairedTime:
    terms = sizing.TimingBudget(
        budget_s=budget_s, block_us=2000.0, round_bytes=1 << 31, floor_us=0.0
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unpaired, "time", SimpleNamespace(monotonic=lambda: sides.now))
        patch.setattr(unpaired, "survey", Sides.looked_through)
        patch.setattr(blocks, "secrets", SimpleNamespace(randbelow=random.Random(0).randrange))
        found = unpaired.run(sides, _venue(), terms, apparent_us)  # type: ignore[arg-type]
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("call_us", "slots"), [(25, 128), (25, 1024), (400, 128), (400, 2), (30_000, 128), (30_000, 1)]
)
@pytest.mark.parametrize("seems", [0.5, 1, 50])
def test_a_call_without_an_opponent_takes_what_it_takes(
    call_us: float, slots: int, seems: float
) -> None:
    """Its time is independent of the first guess; hand-overs, caches and stalls are
    not part of it.
    """
    for seed in range(10):
        sides = Sides(0, call_us, slots=slots, noise=random.Random(seed))
        found = _own_time(sides, seems * call_us)
        assert found.us == pytest.approx(call_us, rel=0.05), seed
        assert found.low <= call_us <= found.high
        assert sides.verified > 0
        assert sides.stretches <= 3, "inputs of all blocks are drawn beforehand"
        used = 2000 / call_us if call_us < 2000 else 1
        assert sides.drawn <= 3 * 13 * 1.2 * max(1, min(slots, used)) + slots


def test_where_memory_is_for_two_blocks_each_stretch_has_one() -> None:
    sides = Sides(0, 300_000, slots=2, noise=random.Random(1))
    sides.bytes_per_call = 1 << 30
    found = _own_time(sides, 300_000, budget_s=1.0)
    assert found.us == pytest.approx(300_000, rel=0.05)
    assert sides.stretches == sides.verified - 1 == 4, "only the first is warmed up for"


def test_a_wrong_timed_call_ends_it() -> None:
    sides = Sides(0, 50, slots=1024, noise=random.Random(0))

    def verify(*deliveries: Delivery) -> bool:
        sides.failed.append(object())
        return False

    sides.verify = verify  # type: ignore[method-assign]
    terms = sizing.TimingBudget(budget_s=0.08, block_us=2000.0, round_bytes=1 << 31, floor_us=0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unpaired, "survey", Sides.looked_through)
        assert unpaired.run(sides, _venue(), terms, 50) is None  # type: ignore[arg-type]


def test_a_time_without_an_opponent_says_what_its_hand_over_may_be_off_by() -> None:
    widths = []
    for spread_us in (0.0, 60.0):
        benchmark = measurements.Measurements(block_us=2000.0, health=Health(torch.device("cpu")))
        benchmark.handovers = [
            Block(
                group=-1, side=side, calls=0, wall_us=200.0 + spread_us * number, claimed_us=200.0
            )
            for side in measurements.SIDES
            for number in range(6)
        ]
        found = unpaired._summed(
            benchmark, [unpaired.TimedBlock(20, 2200.0 + number) for number in range(12)]
        )
        widths.append(math.log(found.high / found.low) / 2)
    assert widths[0] < 0.02
    assert 0.02 < widths[1] < 0.3


def test_what_the_device_does_after_a_block_counts_in_full() -> None:
    """There is no opponent that the same could be added to."""
    idle = unpaired._Idle(settled=30.0, before=200.0)
    quiet = unpaired._timed_block(Times(1_100_000, 0, 30_000, 200_000), idle, 10)
    busy = unpaired._timed_block(Times(1_100_000, 0, 1_070_000, 800_000), idle, 10)
    assert quiet.wall_us == pytest.approx(1100.0)
    assert busy.wall_us == pytest.approx(1100.0 + 1000 + 500)
