"""Other values for weights: a few pairs of elements are exchanged in place."""

from __future__ import annotations

import math
import time
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from workers.protocol import layout
from workers.referee.probes import weight_values


def _bytes(values: torch.Tensor) -> torch.Tensor:
    return values.clone().view(torch.uint8)


@pytest.mark.parametrize("size", [2, 24, 1 << 16])
def test_a_few_pairs_are_exchanged_on_both_sides(size: int) -> None:
    torch.manual_seed(0)
    values, (leaf,) = torch.randn(size), layout.leaves(layout.describe([torch.empty(size)]))
    reference, candidate = _bytes(values), _bytes(torch.zeros(size))
    region = SimpleNamespace(start=0, offsets=(0,), leaves=(leaf,))
    runner: Any = SimpleNamespace(
        arena=SimpleNamespace(parameters=region),
        reference=SimpleNamespace(prefix=reference),
        candidate=SimpleNamespace(prefix=candidate),
    )
    spec: Any = SimpleNamespace(parameters=("weight",))
    weight_values.exchange(runner, spec, ("weight",), bytes(32))
    changed = reference.view(torch.float32)
    assert torch.equal(changed, candidate.view(torch.float32))
    assert torch.equal(changed.sort().values, values.sort().values)
    pairs = min(size // 2, max(weight_values.PAIRS, size // weight_values.PER_PAIR))
    assert int((changed != values).sum()) == 2 * pairs


def test_other_weights_stay() -> None:
    region = SimpleNamespace(start=0, offsets=(0,), leaves=({},))
    memory = torch.zeros(4, dtype=torch.uint8)
    runner: Any = SimpleNamespace(
        arena=SimpleNamespace(parameters=region),
        reference=SimpleNamespace(prefix=memory),
        candidate=SimpleNamespace(prefix=memory),
    )
    spec: Any = SimpleNamespace(parameters=("weight",))
    weight_values.exchange(runner, spec, (), bytes(32))
    assert not bool(memory.any())


@pytest.mark.parametrize("draw", [torch.randn, torch.rand])
@pytest.mark.parametrize("shape", [(1, 600), (600, 1), (80, 90)])
@pytest.mark.parametrize("along", [1, 0])
def test_exchanges_that_no_sum_shows(draw: Any, shape: tuple[int, int], along: int) -> None:
    generator = torch.Generator().manual_seed(1)
    values = draw(shape, generator=generator)
    before = values.clone()
    kept = weight_values.exchange_unseen(values, along, generator, math.inf)
    assert kept == (0 if shape[along] == 1 else weight_values.ALIKE_PAIRS)
    assert torch.equal(values, before) is not bool(kept)
    for one, other in ((values, before), (values.double(), before.double())):
        assert one.norm() == other.norm()
        assert one.sum() == other.sum()
    assert torch.equal(values.sum(along), before.sum(along))


def test_whole_numbers_and_lone_ones_are_not_exchanged() -> None:
    for values in (torch.arange(9).view(1, -1), torch.ones(1, 1)):
        assert weight_values.exchange_unseen(values, 1, torch.Generator(), math.inf) == 0


def test_loading_operations_takes_no_time_from_exchanges(monkeypatch: pytest.MonkeyPatch) -> None:
    runner, spec, values = _with_weights("a")
    waits, clock, find = iter([5]), [0], weight_values._digest

    def found(*arguments: Any) -> torch.Tensor:
        clock[0] += next(waits, 0)
        return find(*arguments)

    monkeypatch.setattr(weight_values, "_digest", found)
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    weight_values.exchange_alike(runner, spec, ("a",), bytes(32), along=1)
    changed = runner.reference.prefix.view(torch.float32) != values.view(-1)
    assert int(changed.sum()) == 2 * weight_values.ALIKE_PAIRS
    assert torch.equal(runner.reference.prefix, runner.candidate.prefix)


def _with_weights(names: str) -> tuple[Any, Any, torch.Tensor]:
    """A runner and a spec with these weights, and their values."""
    torch.manual_seed(0)
    (leaf,) = layout.leaves(layout.describe([torch.empty(30, 40)]))
    size, values = layout.size_of(leaf), torch.randn(len(names), 1200)
    reference, candidate = (values.clone().view(torch.uint8).view(-1) for _ in range(2))
    region = SimpleNamespace(
        start=0, offsets=[size * at for at in range(len(names))], leaves=[leaf] * len(names)
    )
    runner: Any = SimpleNamespace(
        arena=SimpleNamespace(parameters=region),
        reference=SimpleNamespace(prefix=reference),
        candidate=SimpleNamespace(prefix=candidate),
    )
    return runner, SimpleNamespace(parameters=tuple(names)), values


def test_time_for_exchanges_that_no_sum_shows_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    names, clock = tuple("abcdef"), iter(range(1000))
    runner, spec, values = _with_weights("abcdef")
    reference, candidate = runner.reference.prefix, runner.candidate.prefix
    monkeypatch.setattr(weight_values, "TRIES_S", 60)
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    weight_values.exchange_alike(runner, spec, names, bytes(32), along=1)
    changed = (reference.view(torch.float32).view(values.shape) != values).any(dim=1)
    assert 0 < int(changed.sum()) < len(names)
    assert torch.equal(reference, candidate)
    assert next(clock) < 62 + 2 * len(names)
