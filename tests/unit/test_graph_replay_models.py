"""Input sets are made side by side only for models that do not write into their state."""

import torch
from torch import nn

from workers.shims.problem.graph_replay import _versions


class Keeping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.memory = torch.zeros(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.memory.copy_((x * self.weight)[0])


class Plain:
    def __init__(self) -> None:
        self.total = torch.zeros(4)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.total += x[0]
        return x


def _same(model: object) -> bool:
    before = _versions([model])
    with torch.no_grad():
        model(torch.ones(2, 4))  # type: ignore[operator]
    return _versions([model]) == before


def test_a_model_without_writes_is_unchanged_by_a_call() -> None:
    assert _same(nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.BatchNorm1d(4).eval()))


def test_writes_into_kept_memory_are_noticed() -> None:
    assert not _same(Keeping())
    assert not _same(nn.Sequential(Keeping()))
    assert not _same(Plain())
    assert not _same(nn.BatchNorm1d(4))


def test_what_is_not_counted_is_never_the_same() -> None:
    model = nn.Linear(4, 4)
    with torch.inference_mode():
        model.kept = torch.zeros(4)
    assert not _same(model)
