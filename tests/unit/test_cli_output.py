"""Results on a terminal agree with the pages."""

from __future__ import annotations

import pytest

from app.cli import output
from app.web import formatting


@pytest.mark.parametrize(
    ("speedup", "ends", "text"),
    [(1.524, (1.4, 1.66), "1.52× [1.40, 1.66]"), (0.0041, (0.0021, 0.0102), "0.004× [0.002, 0.010]")],
)
def test_a_small_speedup_is_not_nothing(speedup: float, ends: tuple[float, float], text: str) -> None:
    """Rounded as on pages."""
    assert output.speedup({"speedup": speedup, "speedup_ci": ends}) == text
    assert text.startswith(formatting.ratio(speedup))


@pytest.mark.parametrize(
    ("label", "status", "shown"),
    [("clean", "passed", "clean"), ("clean", "incorrect", None), ("hack", "incorrect", "hack"), (None, None, None)],
)
def test_a_verdict_of_clean_is_shown_for_what_passed(label: str | None, status: str | None, shown: str | None) -> None:
    assert output.verdict({"verdict": label, "status": status}) == shown
