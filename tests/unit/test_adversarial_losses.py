"""Losses and masks on hostile tensors: nothing left to train on, NaN outside of the mask, gaps of hundreds of nats,
bfloat16, exchanged directions, turns that touch."""

from __future__ import annotations

import math

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
    loss = aggregate(losses.ppo_dual_clip(log_prob, torch.zeros(2, 3), ONES), kept, mode)
    loss.backward()
    assert loss == 0
    assert (log_prob.grad == 0).all()


@pytest.mark.parametrize("mode", list(Aggregation))
def test_what_is_outside_of_the_mask_does_not_count(mode):
    assert aggregate(NAN, SEEN, mode) == pytest.approx(float(aggregate(torch.nan_to_num(NAN, 0, 0, 0), SEEN, mode)))
    assert masked_mean(NAN, SEEN) == 0.1875


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


@pytest.mark.parametrize("level", [mismatch.Level.GEOMETRIC, mismatch.Level.TURN_GEOMETRIC, mismatch.Level.TOKEN])
def test_bfloat16_does_not_widen_the_bounds(level):
    """exp(0.002) is 1 in bfloat16, and 1,001 tokens are 1,000."""
    for gap, kept in ((0.002, 0.0), (0.0008, 1001.0)):
        log_ratio, mask = torch.full((1, 1001), gap, dtype=torch.bfloat16), torch.ones(1, 1001, dtype=torch.bfloat16)
        assert mismatch.rejection_mask(log_ratio, mask, level=level).float().sum() == kept
    assert masked_sum(torch.ones(1, 1001, dtype=torch.bfloat16), torch.ones(1, 1001)) == 1001


def test_exchanged_directions_reject_other_rows():
    log_ratio = torch.tensor([[0.4], [-0.4]])
    mask = torch.ones(2, 1)
    found = [mismatch.rejection_mask(sign * log_ratio, mask, upper=2.0, lower=0.9).flatten() for sign in (1, -1)]
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
    tail = (torch.ones(1, 3),) if name in {"gspo", "topr", "rec"} else ()
    loss = aggregate(
        getattr(losses, name)(new, old, ADVANTAGES.to(dtype), *tail), torch.ones(1, 3), Aggregation.TOKEN_MEAN
    )
    loss.backward()
    assert loss.isfinite()
    assert new.grad.isfinite().all()


@pytest.mark.parametrize("clip", list(losses.Clip))
@pytest.mark.parametrize("weight", [each for each in losses.Weight if each is not losses.Weight.ADVANTAGE])
def test_a_clipped_token_with_an_infinite_ratio_has_no_gradient(clip, weight):
    """Trinity-RFT: inf · 0 = NaN for the weight `importance_sampling`."""
    new = GAPS[0].clone().requires_grad_()
    loss = losses.rec(new, GAPS[1], ADVANTAGES, torch.ones(1, 3), clip=clip, weight=weight).sum()
    loss.backward()
    assert loss.isfinite()
    if clip is losses.Clip.TWO_SIDE:
        assert new.grad[0, :2].tolist() == [0, 0]


def test_half_precision_has_no_ratio_that_is_infinite_or_no_number():
    """Without advantage an infinite ratio is NaN, and so is DPPO's divergence of two certain tokens."""
    new, old, none = (torch.tensor([[each]], dtype=torch.float16) for each in (0.0, -30.0, 0.0))
    assert losses.ppo_dual_clip(new, old, none) == 0
    assert losses.dppo_mask(new, new, none + 1, losses.Divergence.KL, 0.2, 0.2) == 1
    assert losses.dppo_mask(new, new, none - 1, losses.Divergence.KL, 0.2, 0.2) == 1


def test_turns_that_touch_or_are_empty_are_no_turns_of_their_own():
    mask = torch.tensor([[1, 1, 0, 1, 0]])
    with pytest.raises(ValueError, match="row 0: expected 3 turns, one for each reward, got 2 in the mask"):
        turn_credit.at_turn_ends([[1.0, 2.0, 3.0]], mask)
    rewards = turn_credit.at_turn_ends([[1.0, None]], mask)
    found = turn_credit.spans(rewards, mask, ["p"])
    assert [(each.index, each.reward, each.tokens) for each in found.turns] == [(1, 1.0, 2), (2, None, 1)]
    assert turn_credit.spans(torch.zeros(1, 5), torch.zeros(1, 5), ["p"]).turns == ()


def test_an_infinite_reward_stops_the_step_and_nan_is_missing():
    """verl: a batch of NaN advantages."""
    rewards, mask = torch.tensor([[0.0, 1.0], [0.0, math.nan], [0.0, 3.0]]), torch.ones(3, 2)
    found, _ = verl_plugin.estimator("trloo")(rewards, mask, ["p", "p", "p"])
    assert found.tolist() == [[-2, -2], [0, 0], [2, 2]]
    rewards[0, 1] = math.inf
    with pytest.raises(ValueError, match="expected a finite reward or None, got inf"):
        verl_plugin.estimator("trloo")(rewards, mask, ["p", "p", "p"])
