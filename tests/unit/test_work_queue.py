"""Waits for the device while a reference computes the expected outputs of several calls."""

import pytest
import torch

from workers.shims.problem import reference_session
from workers.shims.problem.reference_session import QUEUED_S, WorkQueue


@pytest.mark.parametrize(
    ("call_s", "waits"),
    [
        (QUEUED_S / 4.2, [1, 5, 9]),  # the first call tells how many may follow one another
        (QUEUED_S * 2, list(range(1, 13))),
        (0.0, [1]),
    ],
)
def test_no_more_work_is_queued_than_may_be(
    monkeypatch: pytest.MonkeyPatch, call_s: float, waits: list[int]
) -> None:
    clock, made, found = [0.0], [0], list[int]()
    monkeypatch.setattr(reference_session, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(reference_session, "settle", lambda _: found.append(made[0]))
    queue = WorkQueue(torch.device("cpu"))
    for _ in range(12):
        made[0] += 1
        clock[0] += call_s
        queue.add_call()
    assert found == waits
