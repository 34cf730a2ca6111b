"""Loading a candidate runs apart from the device's lock, and can be paused."""

from __future__ import annotations

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

    def noted(lock: DeviceLock, process: Any, *, only_if_busy: bool = False) -> Any:
        before = len(process.asked)
        context = apart(lock, process, only_if_busy=only_if_busy)

        class Noted:
            def __enter__(self) -> None:
                context.__enter__()

            def __exit__(self, *error: Any) -> None:
                context.__exit__(*error)
                seen.append((only_if_busy, process.asked[before:]))

        return Noted()

    monkeypatch.setattr(DeviceLock, "apart", noted)
    with here():
        TwoSides(tmp_path, PROBLEM, PROBLEM.replace("class Model(", "class ModelNew("))
    assert seen == [(True, [Command.LOAD]), (True, [Command.ARENA])]
