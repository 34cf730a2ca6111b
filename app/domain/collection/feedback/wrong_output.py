"""COLLECT: one wrong output in a sentence: the amount of the error, its place, and
the likely kind of mistake.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from app.domain.collection.feedback import quantities
from app.domain.output_checks import may_be_of_narrow_products

NEARLY, LOGIC = 5e-3, 0.1
"""Relative errors below and above which there is a likely kind of mistake."""

FEW, EVEN = 50.0, 2.0
"""Largest error by the error in the L2 norm: above the one where a few elements are wrong, below
the other where all are, by a factor or a term; roundings lie between.
"""

MANY = 16
"""Elements from which on that says something."""


def sentence(check: Mapping[str, Any]) -> str:
    """One output that is wrong."""
    named = f"Output {check['index']} ({check['dtype']}, {quantities.shape(check['shape'])})"
    if check["stale_call"] is not None:
        return f"{named} is the answer to an earlier call."
    unwritten = (
        f"{check['unwritten']:,} elements were never written; " if check["unwritten"] else ""
    )
    return f"{named}: {unwritten}{_error(check)}"


def _error(check: Mapping[str, Any]) -> str:
    if check["nonfinite_mismatches"]:
        count = check["nonfinite_mismatches"]
        said = "elements are NaN or infinite where the reference's are not, or the reverse"
        return f"{count:,} {said}{_at(check)}."
    if check["differing"]:
        ties = (
            f", besides {check['ties']:,} that point at equal values, which is right"
            if check.get("ties")
            else ""
        )
        return (
            f"{check['differing']:,} of {prod(check['shape']):,} elements"
            f" differ{ties}{_at(check)}.{_by_one(check)}"
        )
    if check.get("wrong_slice"):
        along, index = check["wrong_slice"]
        return f"slice {index} of dimension {along} is off by half of its own size{_at(check)}."
    if check.get("kept_input") is not None:
        return (
            f"off by half of the small change that the reference makes to input"
            f" {check['kept_input']}{_at(check)}."
        )
    parts = []
    if check["rel_l2"] is not None:
        parts.append(f"relative error {quantities.error(check['rel_l2'])} in the L2 norm")
    if check["max_norm"] is not None:
        parts.append(
            f"largest error {check['max_norm']:.3g} times the reference's root mean square"
        )
    if check["beyond"]:
        parts.append(f"{check['beyond']:,} of {prod(check['shape']):,} elements differ")
    return f"{', '.join(parts) or 'wrong'}{_at(check)}.{_hint(check)}"


def _at(check: Mapping[str, Any]) -> str:
    """The worst element, where it was looked for."""
    worst = check.get("worst")
    if not worst:
        return ""
    index = ", ".join(map(str, worst["index"]))
    return f"; worst at [{index}]: expected {worst['expected']}, got {worst['got']}"


def _by_one(check: Mapping[str, Any]) -> str:
    """Integers next to the right ones."""
    worst = check.get("worst") or {}
    try:
        apart = abs(int(worst["expected"]) - int(worst["got"]))
    except (KeyError, TypeError, ValueError):
        return ""
    rounded = apart == 1 and "int" in check["dtype"] and not check.get("ties")
    return (
        " None is off by more than 1: look at how values are rounded or cut off." if rounded else ""
    )


def _hint(check: Mapping[str, Any]) -> str:
    """The likely kind of mistake, by the size of the error and by how evenly it is spread."""
    relative, largest = check["rel_l2"], check["max_norm"]
    if relative is None:
        return ""
    if relative > LOGIC:
        return " Errors of this size are errors of logic: indices, masks, or a missing term."
    if largest and relative and prod(check["shape"]) >= MANY:
        if largest > FEW * relative:
            return (
                " A few elements are wrong and the others nearly right: look at masks, edges and"
                " rare values."
            )
        if largest < EVEN * relative:
            return (
                " All elements are off by about as much: look for a factor or a term, such as n for"
                " n - 1."
            )
    if may_be_of_narrow_products(check["dtype"], relative):
        return (
            " Products in a narrower type err by about as much: half precision, or TF32, which"
            ' Triton\'s tl.dot takes for float32 unless input_precision="ieee" is given. So do'
            " approximations of erf and tanh."
        )
    if relative < NEARLY:
        return (
            " That is nearly right: look for arithmetic in a narrower type, or a few wrong"
            " elements."
        )
    return ""
