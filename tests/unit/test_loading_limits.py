"""Time limits while a candidate is loaded: an extension may be compiled by its source or by the
constructor of its model.
"""

import uuid
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.domain.job import Job
from workers.referee.session import setup
from workers.referee.session.deadline import Deadline

WHOLE_S, CALL_S = 120.0, 30.0


class Candidate:
    """A session whose process loads at once, with the limits that it had."""

    def __init__(self) -> None:
        self.process = object()
        self.handle = SimpleNamespace(load_candidate=self._load)
        self.limits_s: list[float] = []

    def _load(self, source: bytes, spec: Any, entry: str, backend: str, timeout_s: float) -> None:
        self.limits_s.append(timeout_s)

    def share_arena(self, arena: Any, size: int, timeout_s: float, **given: Any) -> None:
        self.limits_s.append(timeout_s)


@pytest.mark.parametrize(
    ("backend", "limit_s"), [("cuda", WHOLE_S), ("triton", CALL_S), ("torch", CALL_S)]
)
def test_a_constructor_that_compiles_has_the_time_of_the_source(
    backend: str, limit_s: float
) -> None:
    candidate = Candidate()
    reference = SimpleNamespace(arena=SimpleNamespace(candidate_bytes=0), prefix=None)
    lock = SimpleNamespace(apart=lambda *_, **__: nullcontext())
    setup.load(
        cast("Any", candidate),
        Job(job_id=uuid.uuid4(), reference=b"", candidate=b"", backend=backend),
        cast("Any", reference),
        cast("Any", None),
        b"seed",
        Deadline(WHOLE_S, CALL_S),
        cast("Any", lock),
    )
    assert candidate.limits_s == pytest.approx([limit_s, limit_s], rel=0.1)
