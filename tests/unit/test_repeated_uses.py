"""Operators of a loop: some of many equal ones are looked at."""

import torch

from workers.shims.problem.observers import repeated_uses
from workers.shims.problem.observers.reference_limits import Limits


def test_of_many_equal_uses_some_are_looked_at() -> None:
    uses, first = repeated_uses.RepeatedUses(), repeated_uses.LOOKED_AT
    looked = [uses.is_looked_at("aten::exp", (torch.zeros(3), 1)) for _ in range(20 * first)]
    assert all(looked[:first])
    assert sum(looked) == first + 19 * first // repeated_uses.THEN
    assert uses.is_looked_at("aten::exp", (torch.zeros(4), 1))
    assert uses.is_looked_at("aten::log", (torch.zeros(3), 1))


def test_a_limit_that_a_loop_misses_counts_for_some_of_its_steps() -> None:
    x, index = torch.rand(4), torch.arange(4)
    with Limits([x, index]) as limits:
        for _ in range(1000):
            x = x.clamp(max=50.0)
        x[index.neg()]  # uses of integers are noted everywhere
    assert repeated_uses.LOOKED_AT < len(limits.above) < 100
    assert limits.integers.positions == {1}
