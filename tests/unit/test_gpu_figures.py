"""Figures of evaluations on a GPU, with a device that is not there."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from app.domain.job import BASELINES, Job
from tests.bench import gpu_figures
from workers.referee.timing import compiled_baselines


def test_the_figure_of_compiled_baselines_asks_for_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Job] = []

    def measured(job: Job, _: Any) -> Any:
        asked.append(job)
        return MagicMock(status="passed", timing=None), None

    monkeypatch.setattr(gpu_figures, "measure", measured)
    monkeypatch.setattr(compiled_baselines, "added", lambda evaluation, *_: evaluation)
    found = gpu_figures.compiled(MagicMock())
    assert {name: each["status"] for name, each in found.items()} == {
        "layer_norm": "passed",
        "swiglu_half": "passed",
    }
    assert [job.options.baselines for job in asked] == [BASELINES] * 2
