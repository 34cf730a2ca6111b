from __future__ import annotations

import math
import statistics
from dataclasses import replace

import pytest

from app.domain.evaluation import Block, Timing
from app.web.charts import block_plot, sparkline
from app.web.charts.axis import ACROSS, BOTTOM
from workers.referee.timing import estimators

HANDOVER = 150.0


def _block(group: int, side: str, calls: int, per_call_us: float) -> Block:
    wall_us = HANDOVER + calls * per_call_us
    return Block(group=group, side=side, calls=calls, wall_us=wall_us, claimed_us=None)


def _timing(*blocks: Block, reference_us: float = 100.0, candidate_us: float = 50.0) -> Timing:
    return Timing(
        reference_us=reference_us,
        candidate_us=candidate_us,
        speedup=reference_us / candidate_us,
        ci_low=1.9,
        ci_high=2.1,
        groups=2,
        calls_per_side=8,
        handover_us=HANDOVER,
        candidate_handover_us=HANDOVER,
        claimed_us=None,
        floor_us=1.0,
        stop_reason="precise",
        blocks=blocks,
    )


BLOCKS = (
    Block(group=-1, side="reference", calls=0, wall_us=HANDOVER, claimed_us=None),
    _block(0, "reference", 4, 100),
    _block(0, "candidate", 8, 50),
    _block(1, "candidate", 4, 51),
    _block(1, "reference", 8, 99),
)


def test_time_per_call_leaves_out_the_hand_over() -> None:
    plot = block_plot.plot(_timing(*BLOCKS))
    assert plot is not None
    assert [row.per_call_us for row in plot.rows] == pytest.approx([100, 50, 51, 99])
    assert plot.not_drawn == 1


def test_slower_is_higher_and_everything_is_inside() -> None:
    plot = block_plot.plot(_timing(*BLOCKS))
    assert plot is not None
    assert [scaled.name for scaled in plot.scales] == ["logarithmic", "linear"]
    for scaled in plot.scales:
        reference, candidate, _, _ = scaled.dots
        assert reference.y < candidate.y  # SVG counts downwards
        for dot in scaled.dots:
            assert 0 <= dot.x <= ACROSS
            assert block_plot.TOP <= dot.y <= block_plot.HEIGHT - BOTTOM


def test_blocks_shorter_than_the_hand_over_are_counted_not_drawn() -> None:
    short = Block(group=0, side="candidate", calls=1, wall_us=HANDOVER - 20, claimed_us=None)
    plot = block_plot.plot(_timing(*BLOCKS, short))
    assert plot is not None
    assert plot.not_drawn == 2
    assert len(plot.rows) == 5


def test_no_blocks_no_plot() -> None:
    assert block_plot.plot(_timing()) is None


@pytest.mark.parametrize("factor", [1.0, 1.001, 1.3, 4.0, 60.0, 1e6])
def test_every_range_has_a_few_ticks(factor: float) -> None:
    blocks = (_block(0, "reference", 4, 100 * factor), _block(0, "candidate", 4, 100))
    plot = block_plot.plot(replace(_timing(*blocks), reference_us=100 * factor, candidate_us=100.0))
    assert plot is not None
    for scaled in plot.scales:
        assert 2 <= len(scaled.y_ticks) <= 8
        assert all(
            block_plot.TOP <= tick.at <= block_plot.HEIGHT - BOTTOM for tick in scaled.y_ticks
        )


def test_sparkline_scales_to_its_highest_bar() -> None:
    assert [bar.height for bar in sparkline.bars([("08:00", 2), ("08:01", 4), ("08:02", 0)])] == [
        0.5,
        1.0,
        0.0,
    ]
    assert [bar.height for bar in sparkline.bars([("08:00", 0)])] == [0.0]


@pytest.mark.parametrize("groups", [1, 2, 4, 7, 9])
def test_the_blocks_that_the_estimate_is_of_are_marked(groups: int) -> None:
    blocks = [
        _block(group, side, 4, 50.0 + group)
        for group in range(groups)
        for side in ("reference", "candidate")
        for _ in range(2)
    ]
    plot = block_plot.plot(_timing(*blocks))
    assert plot is not None
    times = [row.per_call_us for row in plot.rows if row.side == "reference"]
    estimate = math.exp(estimators.undisturbed(times).centre)
    for side in ("reference", "candidate"):
        counted = [dot.counts for dot in plot.scales[0].dots if dot.side == side]
        assert counted == sorted(counted, reverse=True), "the fastest come first here"
        assert statistics.fmean(times[: sum(counted)]) == pytest.approx(estimate)


def test_a_block_that_is_not_drawn_counts_all_the_same() -> None:
    short = [
        Block(group=0, side="candidate", calls=1, wall_us=HANDOVER - 20, claimed_us=None)
        for _ in range(2)
    ]
    plot = block_plot.plot(_timing(*BLOCKS, *short))
    assert plot is not None
    candidates = [dot for dot in plot.scales[0].dots if dot.side == "candidate"]
    assert [dot.counts for dot in candidates] == [False, False]
