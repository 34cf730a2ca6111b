"""Loading a candidate runs apart from the device's lock, and can be paused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from tests.unit.two_sides import TwoSides, here
from workers.protocol.control_channel import Command
from workers.referee.host.device_lock import DeviceLock

PROBLEM = """
import torch
class Model(torch.nn.Module):
    def forward(self, x): return x + 1
def get_inputs(): return [torch.randn(8)]
"""


def test_its_source_and_its_constructor_run_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[bool, list[int]]] = []
    apart = DeviceLock.apart

    def noted(lock: DeviceLock, process: Any, *, paused_after_s: float | None = None) -> Any:
        before = len(process.asked)
        context = apart(lock, process, paused_after_s=paused_after_s)

        class Noted:
            def __enter__(self) -> None:
                context.__enter__()

            def __exit__(self, *error: Any) -> None:
                context.__exit__(*error)
                seen.append((paused_after_s == math.inf, process.asked[before:]))

        return Noted()

    monkeypatch.setattr(DeviceLock, "apart", noted)
    with here():
        TwoSides(tmp_path, PROBLEM, PROBLEM.replace("class Model(", "class ModelNew("))
    assert seen == [(True, [Command.LOAD]), (True, [Command.ARENA])]
