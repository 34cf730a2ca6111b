"""Error messages for wrong outputs name a likely reason only where the error has its size."""

from __future__ import annotations

import pytest

from app.domain.output_checks import Element, OutputCheck, Trial
from workers.referee import wrong_output
from workers.referee.comparison.correctness import DEFAULT_RULE


def said(dtype: str, rel_l2: float, worst: Element | None = None, variant: str = "own") -> str:
    check = OutputCheck(
        index=0,
        dtype=dtype,
        shape=(4, 8),
        ok=False,
        rel_l2=rel_l2,
        rel_l2_limit=1e-5,
        max_norm=10 * rel_l2,
        max_norm_limit=1e-4,
        nonfinite_mismatches=0,
        unwritten=0,
        stale_call=None,
        worst=worst,
    )
    trial = Trial(call=0, seed="00", ok=False, outputs=(check,), variant=variant)
    return wrong_output.describe(trial, DEFAULT_RULE)


@pytest.mark.parametrize(
    ("dtype", "rel_l2", "told"),
    [
        ("float32", 7.7e-4, True),  # tl.dot of fp32 operands without input_precision, H200
        ("float32", 1.5e-3, True),
        ("float32", 2e-5, False),
        ("float32", 0.3, False),
        ("float64", 7.7e-4, False),
        ("bfloat16", 7.7e-4, False),
    ],
)
def test_products_in_tf32_are_named(dtype: str, rel_l2: float, told: bool) -> None:
    assert ("tl.dot" in said(dtype, rel_l2)) is told
    assert ("approximations of erf" in said(dtype, rel_l2)) is told


@pytest.mark.parametrize(("variant", "told"), [("own", True), ("signed", False)])
def test_the_worst_element_is_named_on_the_problems_own_inputs(variant: str, told: bool) -> None:
    worst = Element(index=(3, 7), expected="0.5", got="-2")
    message = said("float32", 0.3, worst, variant)
    assert ("; worst at [3, 7]: expected 0.5, got -2" in message) is told
    assert "worst at" not in said("float32", 0.3, None)
