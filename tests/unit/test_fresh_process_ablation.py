"""Ablation in a fresh process, whose unwritten memory is zero."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from app.domain.evidence import Ablation
from app.domain.source.source_ablation import BY_SOURCE
from workers.referee.probes import ablation


@pytest.mark.parametrize(
    ("nulls", "accused"), [((), True), (("mean", "another_call"), True), (("zeros", "mean"), False)]
)
def test_a_right_answer_of_a_fresh_process_tells_nothing_where_zeros_are_right(
    monkeypatch: pytest.MonkeyPatch, nulls: tuple[str, ...], accused: bool
) -> None:
    found = Ablation(attempted=True, still_correct=False, launches_skipped=3, reason="")
    monkeypatch.setattr(ablation, "_ablate_in_process", lambda *_, **__: (found, True))
    monkeypatch.setattr(ablation, "_is_right_without_kernels", lambda *_, **__: True)
    context: Any = SimpleNamespace(
        resources=SimpleNamespace(
            device=SimpleNamespace(precompiles=True),
            device_lock=SimpleNamespace(shared=nullcontext),
        ),
        runner=SimpleNamespace(record=SimpleNamespace(null_answers=nulls)),
    )
    result = ablation.ablate(context, names=frozenset(), at_stake=True)
    assert result.still_correct == accused
    assert result.reason == (BY_SOURCE if accused else "")
