"""Outputs of a block are compared with memory once more, unless the device was at rest after it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.unit.two_sides import TwoSides, here
from workers.referee.cancellation import Cancellation
from workers.referee.probes import ablation
from workers.referee.processes.process_session import Session
from workers.referee.session.batches import Times
from workers.referee.session.call_runner import SETTLING_S
from workers.referee.session.context import EvaluationContext

DOUBLES = """
import torch
class Model(torch.nn.Module):
    def forward(self, x): return 2 * x
def get_inputs(): return [torch.randn(8)]
"""
AT_REST, BUSY = round(SETTLING_S * 1e9) - 1, round(SETTLING_S * 1e9)


@pytest.mark.parametrize(
    ("settled_ns", "notices"), [(None, True), (BUSY, True), (AT_REST, False), (0, False)]
)
def test_outputs_can_change_where_the_device_was_not_at_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settled_ns: int | None, notices: bool
) -> None:
    """Overwritten inputs are noticed in any case."""
    delivered = Session.delivered

    def overwritten_at_once(session: Session, first: int, *given: Any) -> Any:
        snapshot = delivered(session, first, *given)
        assert session.arena is not None
        session.region(session.arena.outputs, first + 1, 1).fill_(7)
        session.region(session.arena.inputs, first, 1).fill_(7)
        return snapshot

    with here():
        sides = TwoSides(tmp_path, DOUBLES, DOUBLES.replace("Model(", "ModelNew("))
        runner = sides.runner
        batch = runner.draw(2)
        before = runner.run_candidate(batch, 0, 2)
        assert not any([*before.late, *before.changed])
        monkeypatch.setattr(Session, "delivered", overwritten_at_once)
        found = runner.delivery(batch, 0, 2, Times(1, 1, settled_ns=settled_ns), [])
        host: Any = SimpleNamespace(device_lock=runner.device_lock)
        job: Any = None
        context = EvaluationContext(
            job=job,
            resources=host,
            spec=sides.spec,
            runner=runner,
            seed=b"",
            cancellation=Cancellation(),
        )
        of_probe = ablation._uncounted(context, runner.deadline).delivery(
            batch, 0, 2, Times(1, 1, settled_ns=settled_ns), []
        )
    assert torch.equal(found.outputs, before.outputs)
    assert found.late == [(), (0,) if notices else ()]
    assert found.changed == [(0,), ()]
    assert of_probe.changed == [(), ()], "its calls are not verified"
