"""Kernels that write the same for other inputs, because the problem asks for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from workers.referee.probes import ablated_calls, constant_answers

NAN = float("nan")


@pytest.mark.parametrize(
    ("without_kernels", "is_constant"),
    [
        ([1.0, 2.0, NAN, NAN], True),  # the fill alone
        ([1.0, NAN, NAN, NAN], False),  # something else, too
        ([1.0, 2.0, -1.5, -1.5], False),  # nothing: the kernels do not matter
    ],
)
def test_elements_that_need_kernels_are_the_same_for_other_inputs(
    monkeypatch: pytest.MonkeyPatch, without_kernels: list[float], is_constant: bool
) -> None:
    given = torch.tensor([without_kernels])
    monkeypatch.setattr(ablated_calls, "replace_by", lambda *_: (0, 0))
    monkeypatch.setattr(constant_answers, "leaf_views", lambda *_: [given])
    answers = {
        "usual": torch.tensor([[1.0, 2.0, -1.5, -1.5]], dtype=torch.float64),
        "other": torch.tensor([[5.0, 7.0, -1.5, -1.5]], dtype=torch.float64),
    }
    extra: Any = SimpleNamespace(
        truth=lambda part: SimpleNamespace(expected=[answers[part[0][0]]]),
        yield_to_timers=lambda: None,
        run_candidate=lambda *_: SimpleNamespace(outputs=None),
        arena=SimpleNamespace(outputs=None),
    )
    usual: Any = "usual"
    other: Any = "other"
    assert not constant_answers.are_all(extra, usual, other)
    assert constant_answers.are_all(extra, usual, usual)
    found = constant_answers.are_all_that_needs_kernels(extra, usual, other)
    assert found is is_constant
