"""Numbers among the options of a job."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.job import JobOptions, idempotency_key


def key(options: JobOptions) -> str:
    return idempotency_key(
        problem_sha256="p",
        candidate=b"c",
        backend="triton",
        entry_point="Model",
        device_class="cpu",
        device=None,
        options=options,
    )


def test_a_whole_number_and_the_same_float_are_one_job() -> None:
    assert key(JobOptions(deadline_s=60, rtol=1, atol=0)) == key(
        JobOptions(deadline_s=60.0, rtol=1.0, atol=0.0)
    )
    assert JobOptions(memory_bytes=1e9).memory_bytes == 10**9  # type: ignore[arg-type]
    assert key(JobOptions(deadline_s=60)) != key(JobOptions(deadline_s=61))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"deadline_s": "60"}, "deadline_s: expected a number, got '60'"),
        ({"deadline_s": None}, "deadline_s: expected a number, got None"),
        ({"timing_budget_s": True}, "timing_budget_s: expected a number, got True"),
        ({"timing_budget_s": float("nan")}, "timing_budget_s: expected 0 to 600, got nan"),
        ({"correctness_calls": 2.5}, "correctness_calls: expected a whole number, got 2.5"),
        ({"policy": 5}, "policy: expected text, got 5"),
    ],
)
def test_other_values_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        JobOptions(**options)
