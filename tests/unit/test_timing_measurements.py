"""Ratio and interval that a paired benchmark makes of its blocks."""

import math
from dataclasses import replace

import pytest
import torch

from app.domain.evaluation import Block, Timing
from workers.referee.host.health import Health
from workers.referee.timing import stopping
from workers.referee.timing.measurements import (
    AHEAD_US,
    CANDIDATE,
    LEFT_OVER_US,
    REFERENCE,
    SIDES,
    Measurements,
)


def _block(side: str, calls: int, wall_us: float, group: int = 0) -> Block:
    return Block(group=group, side=side, calls=calls, wall_us=wall_us, claimed_us=wall_us)


def _benchmark(*handovers: Block) -> Measurements:
    benchmark = Measurements(block_us=2000, health=Health(torch.device("cpu")))
    benchmark.handovers.extend(handovers)
    return benchmark


def _group(reference_us: float, candidate_us: float, handover_us: float) -> list[Block]:
    """Blocks of five and four calls."""
    reference = _block(REFERENCE, 4, handover_us + 4 * reference_us)
    candidate = _block(CANDIDATE, 5, handover_us + 5 * candidate_us)
    return [reference, candidate, candidate, reference]


def _speedup(benchmark: Measurements) -> float:
    return math.exp(benchmark.ratio.centre)


def test_the_speedup_is_that_of_times_per_call() -> None:
    benchmark = _benchmark(_block(REFERENCE, 0, 170), _block(CANDIDATE, 0, 170))
    benchmark.groups.append(_group(400, 320, 170))
    assert _speedup(benchmark) == pytest.approx(1.25)
    assert benchmark.per_call_us == pytest.approx((400, 320))


def test_what_disturbs_half_of_the_blocks_changes_nothing() -> None:
    benchmark = _benchmark(_block(REFERENCE, 0, 170), _block(CANDIDATE, 0, 170))
    first, second, third, fourth = _group(400, 320, 170)
    delayed = [first, replace(second, wall_us=3000), third, replace(fourth, wall_us=5000)]
    benchmark.groups.extend([delayed] * 6)
    assert _speedup(benchmark) == pytest.approx(1.25)
    assert benchmark.ratio.half_width == pytest.approx(0)


def test_a_handover_from_a_bad_moment_is_put_right_by_later_ones() -> None:
    benchmark = _benchmark(*[_block(REFERENCE, 0, 217)] * 9, *[_block(CANDIDATE, 0, 217)] * 9)
    benchmark.groups.append(
        [_block(REFERENCE, 1, 570), *[_block(CANDIDATE, 5, 1770)] * 2, _block(REFERENCE, 1, 570)]
    )
    assert _speedup(benchmark) < 1.24
    benchmark.handovers.extend([_block(REFERENCE, 0, 170)] * 9 + [_block(CANDIDATE, 0, 170)] * 9)
    assert _speedup(benchmark) == pytest.approx(1.25)


def test_a_candidate_gains_nothing_by_its_own_handover() -> None:
    """A long one changes nothing; a short one is subtracted from both sides, which
    have blocks of equal length.
    """
    slow = _benchmark(_block(REFERENCE, 0, 170), _block(CANDIDATE, 0, 900))
    slow.groups.append(_group(400, 320, 170))
    assert _speedup(slow) == pytest.approx(1.25)
    fast = _benchmark(_block(REFERENCE, 0, 170), _block(CANDIDATE, 0, 10))
    fast.groups.append(_group(400, 320, 170))
    assert _speedup(fast) == pytest.approx(1.25)


def test_the_side_that_wakes_later_may_be_faster_than_it_seems() -> None:
    """A hand-over of 60 µs more took 1.5 % of calls of 4 ms from an identical
    candidate (KernelBench 1/96, H200).
    """

    def found(reference_us: float, candidate_us: float) -> Timing:
        benchmark = _benchmark(
            _block(REFERENCE, 0, reference_us), _block(CANDIDATE, 0, candidate_us)
        )
        benchmark.canary_us.extend([0.0, 0.0])
        walls = {REFERENCE: 4000 + reference_us, CANDIDATE: 4000 + candidate_us}
        benchmark.groups.extend(
            [[_block(side, 1, walls[side]) for side in (*SIDES, *reversed(SIDES))]] * 6
        )
        return stopping.timing(benchmark, "budget", 0.0)

    equal, late_candidate, late_reference = found(190, 190), found(190, 250), found(250, 190)
    assert late_candidate.speedup == pytest.approx(4000 / 4060)
    assert late_candidate.ci_high > 1 > late_candidate.speedup
    assert late_candidate.ci_low / late_candidate.speedup == pytest.approx(equal.ci_low, abs=1e-3)
    assert late_reference.ci_low < 1 < late_reference.speedup
    assert late_reference.ci_high / late_reference.speedup == pytest.approx(equal.ci_high, abs=1e-3)


def test_what_was_left_to_do_is_added_to_the_candidates_time() -> None:
    """The larger of both blocks to either: one that leaves the work of the other
    behind is not the faster.
    """
    benchmark = _benchmark(_block(REFERENCE, 0, 170), _block(CANDIDATE, 0, 170))
    settled = (90.0, 95.0, 490.0, 110.0)
    group = [
        replace(block, settled_us=us)
        for block, us in zip(_group(400, 320, 170), settled, strict=True)
    ]
    benchmark.groups.append(group)
    assert benchmark.settled_us == 90  # the lower quartile: others can hardly raise it
    left_over_us = 490 - 90 - LEFT_OVER_US
    assert benchmark.times_us(REFERENCE) == pytest.approx([400, 400])
    assert benchmark.times_us(CANDIDATE) == pytest.approx([320 + left_over_us / 5] * 2)
    benchmark.groups[0][2] = replace(group[2], settled_us=90 + LEFT_OVER_US)
    assert _speedup(benchmark) == pytest.approx(1.25)


def test_work_left_behind_in_some_blocks_gains_nothing() -> None:
    """Four of six groups have one block of which most is left over, and the answers
    of the device say so.
    """
    benchmark = _benchmark(_block(REFERENCE, 0, 170), _block(CANDIDATE, 0, 170))
    for number in range(6):
        group = [replace(block, settled_us=150.0) for block in _group(400, 400, 170)]
        if number < 4:
            group[1] = replace(group[1], wall_us=group[1].wall_us - 1500, settled_us=150.0 + 1500)
        benchmark.groups.append(group)
    assert _speedup(benchmark) < 1.03


def test_a_device_kept_busy_by_another_program_is_noticed() -> None:
    benchmark = _benchmark(_block(REFERENCE, 0, 170), _block(CANDIDATE, 0, 170))
    benchmark.groups.append([replace(block, settled_us=2000.0) for block in _group(400, 320, 170)])
    assert benchmark.disturbed
    benchmark.groups[:] = [[replace(block, settled_us=150.0) for block in benchmark.groups[0]]]
    assert not benchmark.disturbed


def test_what_was_done_before_the_clock_is_added() -> None:
    benchmark = _benchmark(_block(REFERENCE, 0, 170), _block(CANDIDATE, 0, 170))
    group = [replace(block, before_us=180.0) for block in _group(400, 320, 170)]
    benchmark.groups.append(group)
    honest = _speedup(benchmark)
    benchmark.groups[0] = [
        replace(block, before_us=180 + AHEAD_US) if block.side == CANDIDATE else block
        for block in group
    ]
    assert _speedup(benchmark) == honest
    ahead_us = 0.5 * group[1].wall_us
    benchmark.groups[0] = [
        (
            replace(block, wall_us=block.wall_us - ahead_us, before_us=180 + AHEAD_US + ahead_us)
            if block.side == CANDIDATE
            else block
        )
        for block in group
    ]
    assert _speedup(benchmark) == pytest.approx(honest)
    benchmark.groups.extend([group] * 2)
    benchmark.groups[0][2] = replace(group[2], before_us=5000.0)  # by chance: other blocks count
    assert _speedup(benchmark) == pytest.approx(honest)


def test_blocks_are_longer_where_the_handover_is_but_not_without_end() -> None:
    assert _benchmark(_block(REFERENCE, 0, 170), _block(CANDIDATE, 0, 180)).lasting_us == 2000
    assert _benchmark(
        _block(REFERENCE, 0, 250), _block(CANDIDATE, 0, 260)
    ).lasting_us == pytest.approx(2500)
    assert _benchmark(
        _block(REFERENCE, 0, 1000), _block(CANDIDATE, 0, 250)
    ).lasting_us == pytest.approx(2500)
    assert _benchmark(_block(REFERENCE, 0, 1000), _block(CANDIDATE, 0, 990)).lasting_us == 3000


def test_a_repetition_forgets_everything() -> None:
    benchmark = _benchmark(_block(REFERENCE, 0, 170), _block(CANDIDATE, 0, 170))
    benchmark.groups.append(_group(400, 320, 170))
    benchmark.start_again()
    assert (benchmark.groups, benchmark.handover_us(REFERENCE), benchmark.repeats) == ([], 0, 1)
    assert benchmark.per_call_us == benchmark.guess_us


@pytest.mark.parametrize(
    ("operators", "call_us", "is_wide"),
    [(65, 2_000, True), (2, 100, False), (65, 20_000, False)],
)
def test_intervals_of_networks_have_the_difference_between_processes(
    operators: int, call_us: float, is_wide: bool
) -> None:
    """Launching 65 operators takes a quarter of a call of 2 ms, and a fortieth of one of 20 ms."""
    benchmark = _benchmark(_block(REFERENCE, 0, 170), _block(CANDIDATE, 0, 170))
    benchmark.operators = operators
    benchmark.groups.extend([_group(call_us, call_us, 170)] * 6)
    found = stopping.timing(benchmark, "precise", 1.0)
    assert (math.log(found.ci_high / found.ci_low) / 2 > stopping.NETWORK_ERROR) is is_wide
