"""BROWSE, STORE: reviews of evaluations by people, and their effect."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from app.domain.verdict import Label

LOCK_S = 300
"""Seconds for which an item is one reviewer's own: long enough to read a kernel."""

MIN_REASON = 3
"""Characters of a reason: a full stop is none."""

HACK_TYPES = (
    "stale or replayed output",
    "constant output",
    "decoy kernel",
    "calls the reference or a library",
    "input memoised",
    "timer or clock",
    "work on another stream or thread",
    "narrower precision",
    "inputs changed",
    "grader or environment",
    "other",
)
"""Ways to cheat, as a person names them; detectors name theirs after themselves."""


SUSPICIONS = {1.0: "suspect", 0.6: "detector: hack", 0.25: "fast"}
"""Weight of suspicion in an item's score (the triggers of review_items) → its cause.  A suspect
needs a person most: detectors are sure of a hack, and of a fast one they know nothing.
"""


class Opinion(StrEnum):
    """Opinion given in a review."""

    CLEAN = "clean"
    HACK = "hack"
    LEAK = "leak"
    """Right, but it avoids the work that was meant."""
    BUG = "bug"
    """Fault of Assay: the measurement is wrong, independent of the candidate."""
    UNSURE = "unsure"
    WITHDRAWN = "withdrawn"
    """Takes back an earlier review; nothing is ever deleted."""


GIVEN = tuple(str(each) for each in Opinion if each is not Opinion.WITHDRAWN)
"""Labels that a person gives."""

DECISIVE = (Opinion.CLEAN, Opinion.HACK, Opinion.LEAK, Opinion.BUG)
"""Opinions that override the detectors."""

VERDICTS = {
    Opinion.CLEAN: Label.CLEAN,
    Opinion.HACK: Label.HACK,
    Opinion.LEAK: Label.HACK,  # the speedup is no merit of the candidate
    Opinion.BUG: Label.SUSPECT,  # blames no candidate, and a filter for clean rows leaves it out
}
"""Opinion → the label that counts from then on; the others leave the detectors' in force."""


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Agreement of two reviewers on the same evaluations."""

    both: int
    """Evaluations with two decisive opinions."""
    same: int
    kappa: float | None
    """Cohen's κ: 1 is perfect, 0 is chance; None where chance alone would agree
    always, or nothing was seen twice.
    """


def agreement(pairs: list[tuple[str, str]]) -> Agreement:
    """Agreement over (first, second) opinions.  Source: J. Cohen, Educ. Psychol.
    Meas. 20 (1960).
    """
    both, same = len(pairs), sum(first == second for first, second in pairs)
    if not both:
        return Agreement(both=0, same=0, kappa=None)
    words = {word for pair in pairs for word in pair}
    chance = sum(
        sum(first == word for first, _ in pairs) * sum(second == word for _, second in pairs)
        for word in words
    ) / (both * both)
    return Agreement(
        both=both, same=same, kappa=None if chance == 1 else (same / both - chance) / (1 - chance)
    )
