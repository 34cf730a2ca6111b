"""EXPORT: settings of a selection without effect on its kind of rows, or beside its others."""

from __future__ import annotations

from collections.abc import Iterable

from app.domain.dataset.selection import BestOf, Kind, Source, Spec, Turns
from app.domain.source.near_duplicates import Similarity

DEFAULT_TURNS = {Kind.TRAJECTORY: Turns.BEST, Kind.MASKED: Turns.IMPROVING}
"""Every other kind takes all turns by default."""

_CHOSEN = (
    "reviewed_above",
    "min_speedup",
    "max_speedup",
    "min_coverage",
    "similarity",
    "jaccard",
    "mrs",
    "prs",
    "prs_draw",
    "prs_tau",
    "prs_scale",
    "prs_ratio",
    "prs_coverage",
    "prs_speedup",
    "turns",
    "delta",
    "min_return",
    "best_of",
    "k",
    "key",
    "threshold",
    "epsilon",
    "max_per_problem",
    "max_per_family",
    "balance",
)
"""Options of kinds with attempts to choose from."""


def inapplicable(spec: Spec, kind: Kind) -> list[str]:
    """Settings that were given and mean nothing for rows of this kind."""
    applies = dict.fromkeys(_CHOSEN, not kind.takes_all)
    applies |= {
        "extraction": kind.shows_answer and kind is not Kind.REWARDS,
        "context": kind.shows_history,
        "reasoning": kind.shows_answer,
        "advantages": kind not in (Kind.PAIRS, Kind.RL_PROMPTS),
        "gamma": kind is Kind.REWARDS or spec.turns is Turns.RETURN_TO_GO,
        "pairs": kind is Kind.PAIRS,
        "pairs_per_chosen": kind is Kind.PAIRS,
        "pass_rate": kind is Kind.RL_PROMPTS,
    }
    from_problems = spec.source is Source.PROBLEMS
    applies |= dict.fromkeys(("backends", "families", "rate_run"), from_problems)
    applies |= dict.fromkeys(("policy", "device", "stale", "max_tokens"), not from_problems)
    default = Spec()
    return [
        name
        for name, does in applies.items()
        if not does and getattr(spec, name) != getattr(default, name)
    ]


def unused(spec: Spec, kind: Kind, given: Iterable[str]) -> dict[str, str]:
    """Given settings that nothing reads → the option that would read them."""
    turns = spec.turns or DEFAULT_TURNS.get(kind)
    readers = {
        "jaccard": ("--similarity minhash", spec.similarity is Similarity.MINHASH),
        "delta": ("--turns improving", turns is Turns.IMPROVING),
        "min_return": ("--turns return_to_go", turns is Turns.RETURN_TO_GO),
        "k": (
            "--best-of top_k or epsilon_best",
            spec.best_of in (BestOf.TOP_K, BestOf.EPSILON_BEST),
        ),
        "threshold": ("--best-of threshold", spec.best_of is BestOf.THRESHOLD),
        "epsilon": ("--best-of epsilon_best", spec.best_of is BestOf.EPSILON_BEST),
    } | {name: ("--prs", spec.prs is not None) for name in _CHOSEN if name.startswith("prs_")}
    return {name: readers[name][0] for name in given if name in readers and not readers[name][1]}
