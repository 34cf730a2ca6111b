"""What a contest makes of its blocks."""

import math

import pytest
import torch

from app.domain.evaluation import Block
from workers.referee.contest import CANDIDATE, REFERENCE, Contest
from workers.referee.health import Health


def _block(side: str, calls: int, wall_us: float, group: int = 0) -> Block:
    return Block(group=group, side=side, calls=calls, wall_us=wall_us, claimed_us=wall_us)


def _contest(*handovers: Block) -> Contest:
    contest = Contest(block_us=2000, health=Health(torch.device("cpu")))
    contest.handovers.extend(handovers)
    return contest


def _group(reference_us: float, candidate_us: float, handover_us: float) -> list[Block]:
    """Blocks of five and four calls."""
    reference = _block(REFERENCE, 4, handover_us + 4 * reference_us)
    candidate = _block(CANDIDATE, 5, handover_us + 5 * candidate_us)
    return [reference, candidate, candidate, reference]


def test_the_ratio_of_a_group_is_that_of_times_per_call() -> None:
    contest = _contest(_block(REFERENCE, 0, 170), _block(CANDIDATE, 0, 170))
    contest.groups.append(_group(400, 320, 170))
    assert contest.ratios == pytest.approx([math.log(1.25)])
    assert contest.per_call_us == pytest.approx((400, 320))


def test_a_handover_from_a_bad_moment_is_put_right_by_later_ones() -> None:
    contest = _contest(*[_block(REFERENCE, 0, 217)] * 9, *[_block(CANDIDATE, 0, 180)] * 9)
    contest.groups.append(_group(400, 320, 170))
    assert math.exp(contest.ratios[0]) < 1.24
    contest.handovers.extend([_block(REFERENCE, 0, 170)] * 9 + [_block(CANDIDATE, 0, 170)] * 9)
    assert contest.ratios == pytest.approx([math.log(1.25)])


def test_a_candidate_gains_nothing_by_its_own_handover() -> None:
    slow = _contest(_block(REFERENCE, 0, 170), _block(CANDIDATE, 0, 900))
    slow.groups.append(_group(400, 320, 170))
    assert slow.ratios == pytest.approx([math.log(1.25)])
    fast = _contest(_block(REFERENCE, 0, 170), _block(CANDIDATE, 0, 10))
    fast.groups.append(_group(400, 320, 170))
    assert fast.ratios[0] < math.log(1.25)


def test_blocks_are_longer_where_the_handover_is_but_not_without_end() -> None:
    assert _contest(_block(REFERENCE, 0, 170)).lasting_us == 2000
    assert _contest(_block(REFERENCE, 0, 300)).lasting_us == pytest.approx(3000)
    assert _contest(_block(REFERENCE, 0, 1000)).lasting_us == 4000


def test_a_repetition_forgets_everything() -> None:
    contest = _contest(_block(REFERENCE, 0, 170), _block(CANDIDATE, 0, 170))
    contest.groups.append(_group(400, 320, 170))
    contest.start_again()
    assert (contest.ratios, contest.handover_us(REFERENCE), contest.repeats) == ([], 0, 1)
    assert contest.per_call_us == contest.guess_us
