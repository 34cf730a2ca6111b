"""Kernels that matter on few of a problem's draws are no decoys."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from workers.protocol.control_channel import AblationMode
from workers.referee.probes import ablation


def _runner(*, are_costly: bool = False) -> Any:
    drawn = itertools.count()
    return SimpleNamespace(streams=False, are_costly=are_costly, draw=lambda _: next(drawn))


@pytest.mark.parametrize(
    ("needs_kernels", "are_costly", "matter"),
    [
        ({ablation.FURTHER - 1}, False, True),
        (set(), False, False),
        ({1}, True, False),  # one draw only
        ({0}, True, True),
    ],
)
def test_kernels_are_left_out_on_further_draws(
    monkeypatch: pytest.MonkeyPatch, needs_kernels: set[int], are_costly: bool, matter: bool
) -> None:
    def is_right(_: Any, mode: AblationMode, batch: int) -> bool:
        return mode == AblationMode.HONEST or batch not in needs_kernels

    monkeypatch.setattr(ablation, "is_right", is_right)
    monkeypatch.setattr(ablation, "_beyond", lambda *_: iter(()))
    usual: Any = None
    extra = _runner(are_costly=are_costly)
    assert ablation._matter_beyond(extra, AblationMode.NOTHING, usual) is matter


def test_a_process_without_kernels_is_wrong_on_a_further_draw(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ablation, "passes", lambda _, batch: batch != 2)
    monkeypatch.setattr(ablation, "is_right", lambda *_: True)
    monkeypatch.setattr(ablation, "_beyond", lambda *_: iter(()))
    assert not ablation._stays_right_beyond(_runner(), _runner())
