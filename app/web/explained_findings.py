"""BROWSE: a finding for a person: a sentence first, then expected beside got with
units, kernels and lines.

Keys of stored evidence are shown as they are under "raw" only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.domain.verdict import Finding
from app.web import stored_values
from app.web.finding_meanings import MEANINGS, Meaning

MOST_KERNELS = 8
"""Kernels that a finding lists."""


@dataclass(frozen=True, kw_only=True)
class ComparedFigure:
    """One figure: the value of honest work beside the value found."""

    name: str
    expected: str
    got: str


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """A kernel that a finding is about."""

    name: str
    launches: str
    time: str
    origin: str


@dataclass(frozen=True, kw_only=True)
class Explained:
    """A finding with its explanation."""

    finding: Finding
    title: str
    sentence: str
    meaning: str
    """Explanation of findings of this detector; empty for a detector of another package."""
    compared: tuple[ComparedFigure, ...]
    kernels: tuple[Kernel, ...]


def explained(finding: Finding) -> Explained:
    """The finding with its explanation; one of an unknown detector keeps its summary."""
    known = MEANINGS.get(finding.detector)
    if known is None:
        known = Meaning(title=stored_values.label(finding.detector), meaning="")
    return Explained(
        finding=finding,
        title=known.title,
        sentence=_filled(known.sentence, finding.evidence) or _sentence(finding.summary),
        meaning=known.meaning,
        compared=tuple(
            row
            for row in (_row(_said(each, finding), finding.evidence) for each in known.rows)
            if row
        ),
        kernels=_kernels(finding.evidence),
    )


def title(detector: str) -> str:
    """Title of a detector in plain words."""
    known = MEANINGS.get(detector)
    return known.title if known else stored_values.label(detector)


def meaning(detector: str) -> str:
    """Explanation of a detector's findings; empty for a detector of another package."""
    known = MEANINGS.get(detector)
    return known.meaning if known else ""


def titles() -> dict[str, str]:
    """Detector → its title in plain words."""
    return {name: meaning.title for name, meaning in MEANINGS.items()}


def _said(texts: tuple[str, str, str], finding: Finding) -> tuple[str, str, str]:
    """The texts of a row; times that were modelled from the bytes moved are called so: the CPU
    device's own times, which the kernels beside have, say nothing about a GPU.
    """
    modelled = finding.evidence.get("modelled") or "modelled work" in finding.summary
    name, expected, got = texts
    return (name.replace("Time in ", "Modelled GPU time in ") if modelled else name), expected, got


def _row(texts: tuple[str, str, str], evidence: Mapping[str, object]) -> ComparedFigure | None:
    name, expected, got = (_filled(text, evidence) for text in texts)
    if name is None or expected is None or got is None:
        return None
    return ComparedFigure(name=name, expected=expected, got=got)


def _filled(text: str, evidence: Mapping[str, object]) -> str | None:
    """The text with values of the evidence; None where one is missing."""
    keys = re.findall(r"\{(\w+)\}", text)
    if any(evidence.get(key) is None for key in keys):
        return None
    return re.sub(
        r"\{(\w+)\}", lambda match: stored_values.shown(evidence[match[1]], match[1]), text
    )


def _sentence(summary: str) -> str:
    text = summary.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def _kernels(evidence: Mapping[str, object]) -> tuple[Kernel, ...]:
    listed = evidence.get("kernels")
    if not isinstance(listed, Sequence) or isinstance(listed, str):
        return ()
    return tuple(
        Kernel(
            name=str(each.get("name", "")),
            launches=stored_values.shown(each.get("launches"), "launches"),
            time=stored_values.shown(each.get("total_us"), "total_us"),
            origin="candidate" if each.get("custom") else str(each.get("origin") or "library"),
        )
        for each in listed[:MOST_KERNELS]
        if isinstance(each, Mapping)
    )
