"""Another way to compute the same is right, less precision is wrong: in call after call."""

import pytest
import torch

from tests.rewrites import DOWNGRADES, REWRITES, Pair
from workers import truth
from workers.referee import compare

CALLS = 40


def right(pair: Pair, seed: int) -> bool:
    """One call of a pair, by the referee's rule."""
    torch.manual_seed(seed)
    inputs = pair.draw()
    with torch.no_grad():
        own = pair.reference(*inputs)
        best = truth.find(pair.reference, inputs, own)
        expected = truth.call(truth.twin(pair.reference, best), truth.widened(inputs, best), best)
        got = pair.candidate(*inputs)
    return compare.outputs(
        got.reshape(1, -1), expected.reshape(1, -1), own.reshape(1, -1), torch.zeros(got.numel()), 0, tuple(got.shape)
    ).ok[0]


@pytest.mark.parametrize("pair", REWRITES, ids=lambda pair: pair.name)
def test_another_way_to_compute_the_same_is_right_in_every_call(pair: Pair) -> None:
    wrong = [seed for seed in range(CALLS) if not right(pair, seed)]
    assert not wrong


@pytest.mark.parametrize("pair", DOWNGRADES, ids=lambda pair: pair.name)
def test_less_precision_is_wrong_in_every_call(pair: Pair) -> None:
    passed = [seed for seed in range(10) if right(pair, seed)]
    assert not passed
