"""Other evaluators' rules, each computed only where a closer one does not decide."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from workers.referee.comparison.peer_rules import agree


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.int32])
def test_each_rule_is_torchs_own(kind: torch.dtype) -> None:
    torch.manual_seed(5)
    baseline = (100 * torch.randn(6, 40)).to(kind)
    off = torch.tensor([0.0, 1e-5, 2e-3, 5e-2, float("nan"), 0.0])[:, None]
    got = (baseline.double() * (1 + off)).nan_to_num(nan=77.0).to(kind)
    if kind.is_floating_point:
        got[4, 0], got[5, 0], baseline[5, 0] = float("nan"), float("inf"), float("inf")
    tolerances = (1e-2, 1e-4, 1e-3)
    assert agree(got, baseline, tolerances) == [
        [
            torch.allclose(mine, theirs, rtol=each, atol=each)
            for mine, theirs in zip(got, baseline, strict=True)
        ]
        for each in tolerances
    ]


@pytest.mark.parametrize(("off", "computed"), [(0.0, 1), (1e-3, 2), (1.0, 2)])
def test_what_a_closer_rule_decides_is_not_computed(
    monkeypatch: pytest.MonkeyPatch, off: float, computed: int
) -> None:
    seen: list[float] = []
    isclose = torch.isclose

    def counted(*given: Any, **named: Any) -> torch.Tensor:
        seen.append(named["rtol"])
        found: torch.Tensor = isclose(*given, **named)
        return found

    monkeypatch.setattr(torch, "isclose", counted)
    ones = torch.ones(3, 8)
    found = agree(ones + off, ones, (1e-2, 1e-4))
    assert found == [[off < 1e-2] * 3, [off < 1e-4] * 3]
    assert seen == [1e-4, 1e-2][:computed]
