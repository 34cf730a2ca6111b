"""Losses and masks on hostile tensors: nothing left to train on, NaN outside of the mask, gaps of
hundreds of nats, bfloat16, exchanged directions, turns that touch.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from workers.training import losses, mismatch, turn_credit, verl_plugin
from workers.training.aggregate import Aggregation, aggregate, masked_mean, masked_sum

ONES = torch.ones(2, 3)
NAN = torch.tensor([[0.5, 0.25, math.nan], [math.inf, 0.0, 0.0]])
SEEN = torch.tensor([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]])


@pytest.mark.parametrize("mode", list(Aggregation))
def test_a_batch_that_is_masked_whole_has_no_loss_and_no_gradient(mode):
    """verl 0.9.1: NaN."""
    log_prob = torch.zeros(2, 3, requires_grad=True)
    kept = mismatch.rejection_mask(torch.full((2, 3), -90.0), ONES)
    loss = aggregate(losses.ppo_dual_clip(log_prob, torch.zeros(2, 3), ONES, ONES), kept, mode)
    loss.backward()
    assert loss == 0
    assert (log_prob.grad == 0).all()


@pytest.mark.parametrize("mode", list(Aggregation))
def test_what_is_outside_of_the_mask_does_not_count(mode):
    assert aggregate(NAN, SEEN, mode) == pytest.approx(
        float(aggregate(torch.nan_to_num(NAN, 0, 0, 0), SEEN, mode))
    )
    assert masked_mean(NAN, SEEN) == 0.1875


OF_TWO = {"reinforce", "opmd"}
REC = {
    "clip": losses.Clip.GSPO_ONE_SIDE,
    "weight": losses.Weight.GSPO_IMPORTANCE,
    "regulariser": losses.Regulariser.K2,
    "coefficient": 0.1,
}
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("reinforce", {}),
    ("ppo_dual_clip", {}),
    ("gspo", {}),
    ("cispo", {}),
    ("opmd", {}),
    ("topr", {}),
    ("topr", {"whole_rows": False}),
    ("rec", REC),
    ("rec", {"weight": losses.Weight.ADVANTAGE}),
    ("dppo", {}),
    ("dppo", {"divergence": losses.Divergence.KL}),
]


@pytest.mark.parametrize(("name", "options"), VARIANTS)
@pytest.mark.parametrize("argument", range(3))
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_no_gradient_comes_from_outside_of_the_mask(name, options, argument, value):
    """Paddings of rollout engines, and advantages of turns that are left out: 0 · NaN is NaN."""
    torch.manual_seed(0)
    given = [-torch.rand(2, 3), -torch.rand(2, 3), torch.randn(2, 3)]

    def found(padding):
        used = [each.clone() for each in given]
        used[argument][SEEN == 0] = padding
        used[0].requires_grad_()
        rest = used[2:] if name in OF_TWO else used[1:]
        loss = aggregate(
            getattr(losses, name)(used[0], *rest, SEEN, **options), SEEN, Aggregation.TOKEN_MEAN
        )
        loss.backward()
        return loss.detach(), used[0].grad

    (plain, its), (hostile, theirs) = found(0.0), found(value)
    assert torch.equal(plain, hostile)
    assert torch.equal(its, theirs)
    assert (theirs[SEEN == 0] == 0).all()


def test_weights_and_metrics_outside_of_the_mask_are_nothing():
    log_ratio = torch.where(SEEN.bool(), 0.1, math.nan)
    for level in mismatch.Level:
        for weights in (mismatch.importance_weights, mismatch.icepop_weights):
            assert (weights(log_ratio, SEEN, level=level)[SEEN == 0] == 0).all()
    known = torch.where(SEEN.bool(), -1.0, math.nan)
    assert all(map(math.isfinite, mismatch.metrics(known, known, SEEN).values()))
    unknown = torch.tensor([[math.nan, 0.0, 0.0]])
    assert mismatch.icepop_weights(unknown, torch.ones(1, 3))[0, 0] == 0
    assert mismatch.importance_weights(unknown, torch.ones(1, 3))[0, 0].isnan()


def test_metrics_in_half_precision_are_those_of_the_same_numbers():
    """e^x − x − 1 of bfloat16 is the rounding of e^x: −7e-6 where it is 6e-5."""
    torch.manual_seed(0)
    train = -4 * torch.rand(8, 200)
    rollout = (train + 0.01 * torch.randn(8, 200)).bfloat16()
    exact = mismatch.metrics(train.bfloat16().double(), rollout.double(), torch.ones(8, 200))
    assert mismatch.metrics(train.bfloat16(), rollout, torch.ones(8, 200)) == pytest.approx(
        exact, rel=1e-2, abs=1e-6
    )


def test_ratios_outside_of_the_mask_reject_nothing():
    log_ratio = torch.where(SEEN.bool(), 0.0, math.nan)
    for level in mismatch.Level:
        assert torch.equal(mismatch.rejection_mask(log_ratio, SEEN, level=level), SEEN)
    assert torch.equal(mismatch.veto_mask(log_ratio, SEEN), SEEN)


@pytest.mark.parametrize("level", list(mismatch.Level))
def test_unknown_ratios_inside_of_the_mask_are_rejected_and_vetoed(level):
    log_ratio = torch.zeros(2, 3)
    log_ratio[0, 1] = math.nan
    assert mismatch.rejection_mask(log_ratio, ONES, level=level)[0, 1] == 0
    assert mismatch.veto_mask(log_ratio, ONES).tolist() == [[0, 0, 0], [1, 1, 1]]


@pytest.mark.parametrize(
    "level", [mismatch.Level.GEOMETRIC, mismatch.Level.TURN_GEOMETRIC, mismatch.Level.TOKEN]
)
def test_bfloat16_does_not_widen_the_bounds(level):
    """exp(0.002) is 1 in bfloat16, and 1,001 tokens are 1,000."""
    for gap, kept in ((0.002, 0.0), (0.0008, 1001.0)):
        log_ratio, mask = (
            torch.full((1, 1001), gap, dtype=torch.bfloat16),
            torch.ones(1, 1001, dtype=torch.bfloat16),
        )
        assert mismatch.rejection_mask(log_ratio, mask, level=level).float().sum() == kept
    assert masked_sum(torch.ones(1, 1001, dtype=torch.bfloat16), torch.ones(1, 1001)) == 1001


def test_exchanged_directions_reject_other_rows():
    log_ratio = torch.tensor([[0.4], [-0.4]])
    mask = torch.ones(2, 1)
    found = [
        mismatch.rejection_mask(sign * log_ratio, mask, upper=2.0, lower=0.9).flatten()
        for sign in (1, -1)
    ]
    assert [each.tolist() for each in found] == [[1, 0], [0, 1]]
    assert mismatch.veto_mask(torch.tensor([[10.0], [-10.0]]), mask).flatten().tolist() == [1, 0]
    weights = mismatch.importance_weights(log_ratio, mask, upper=9.0).flatten()
    assert weights.tolist() == pytest.approx([math.exp(0.4), math.exp(-0.4)])


GAPS = torch.tensor([[-0.1, -200.0, -3.0]]), torch.tensor([[-300.0, -0.1, -3.0]])
ADVANTAGES = torch.tensor([[1.0, -1.0, 1.0]])


@pytest.mark.parametrize("name", ["ppo_dual_clip", "cispo", "dppo", "gspo", "topr", "rec"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_gaps_of_hundreds_of_nats_keep_losses_finite(name, dtype):
    new, old = GAPS[0].to(dtype, copy=True).requires_grad_(), GAPS[1].to(dtype)
    mask = torch.ones(1, 3)
    loss = aggregate(
        getattr(losses, name)(new, old, ADVANTAGES.to(dtype), mask), mask, Aggregation.TOKEN_MEAN
    )
    loss.backward()
    assert loss.isfinite()
    assert new.grad.isfinite().all()


@pytest.mark.parametrize("clip", list(losses.Clip))
@pytest.mark.parametrize(
    "weight", [each for each in losses.Weight if each is not losses.Weight.ADVANTAGE]
)
def test_a_clipped_token_with_an_infinite_ratio_has_no_gradient(clip, weight):
    """Trinity-RFT: inf · 0 = NaN for the weight `importance_sampling`."""
    new = GAPS[0].clone().requires_grad_()
    loss = losses.rec(new, GAPS[1], ADVANTAGES, torch.ones(1, 3), clip=clip, weight=weight).sum()
    loss.backward()
    assert loss.isfinite()
    if clip is losses.Clip.TWO_SIDE:
        assert new.grad[0, :2].tolist() == [0, 0]


def test_half_precision_has_no_ratio_that_is_infinite_or_no_number():
    """Without advantage an infinite ratio is NaN, and so is DPPO's divergence of two
    certain tokens.
    """
    new, old, none = (torch.tensor([[each]], dtype=torch.float16) for each in (0.0, -30.0, 0.0))
    assert losses.ppo_dual_clip(new, old, none, none + 1) == 0
    for advantage in (none + 1, none - 1):
        found = losses.dppo(new, new, advantage, none + 1, divergence=losses.Divergence.KL)
        assert found.isfinite()


def test_turns_that_touch_or_are_empty_are_no_turns_of_their_own():
    mask = torch.tensor([[1, 1, 0, 1, 0]])
    with pytest.raises(
        ValueError, match="row 0: expected 3 turns, one for each reward, got 2 in the mask"
    ):
        turn_credit.at_turn_ends([[1.0, 2.0, 3.0]], mask)
    rewards = turn_credit.at_turn_ends([[1.0, None]], mask)
    found = turn_credit.spans(rewards, mask, ["p"])
    assert [(each.index, each.reward, each.tokens) for each in found.turns] == [
        (1, 1.0, 2),
        (2, None, 1),
    ]
    assert turn_credit.spans(torch.zeros(1, 5), torch.zeros(1, 5), ["p"]).turns == ()


def test_an_infinite_reward_stops_the_step_and_nan_is_missing():
    """verl: a batch of NaN advantages."""
    rewards, mask = torch.tensor([[0.0, 1.0], [0.0, math.nan], [0.0, 3.0]]), torch.ones(3, 2)
    found, _ = verl_plugin.estimator("trloo")(rewards, mask, ["p", "p", "p"])
    assert found.tolist() == [[-2, -2], [0, 0], [2, 2]]
    rewards[0, 1] = math.inf
    with pytest.raises(ValueError, match="expected a finite reward or None, got inf"):
        verl_plugin.estimator("trloo")(rewards, mask, ["p", "p", "p"])
