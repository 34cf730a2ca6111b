"""BROWSE: the form of a selection: its fields, and from form to specification."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from app.domain import filter_language
from app.domain import policy as policies
from app.domain.dataset.selection import BestOf, Kind, Reasoning, Spec, Stale, Turns
from app.domain.source.near_duplicates import Similarity
from app.export.draft import kind_of


@dataclass(frozen=True, kw_only=True)
class Field:
    """One field of the form."""

    name: str
    label: str
    help: str
    default: str
    """Text for the value that an empty field stands for."""
    unit: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    """Value → words, of a select; empty for a number."""
    is_common: bool = False
    """Shown at once; the others are behind "More options"."""


_USUAL = Spec()

OPTIONS = (
    Field(
        name="min_speedup",
        is_common=True,
        label="Min speedup",
        help="The lower end of the 95 % interval must be at least this.",
        default="no limit",
        unit="×",
    ),
    Field(
        name="kind",
        is_common=True,
        label="Kind of row",
        help="Content of one row.",
        default="the usual one of the format",
        options={
            Kind.TRAJECTORY: "trajectory: a dialogue up to the chosen turn",
            Kind.TURN: "turn: history, then one chosen turn",
            Kind.MASKED: "masked: a dialogue, its chosen turns marked",
            Kind.SINGLE: "single: first prompt, then the code",
            Kind.PAIRS: "pairs: a better and a worse answer",
            Kind.LABELLED: "labelled: one answer, good or bad",
            Kind.RL_PROMPTS: "RL prompts: problems to try",
            Kind.REWARDS: "rewards: a turn with rewards and returns",
        },
    ),
    Field(
        name="turns",
        is_common=True,
        label="Turns",
        help="Turns of a trajectory that become rows.",
        default="best for trajectories, improving for masked, else all",
        options={
            Turns.ALL: "all",
            Turns.FINAL: "the last one",
            Turns.BEST: "the fastest correct one",
            Turns.FIRST_CORRECT: "the first correct one",
            Turns.IMPROVING: "each that is faster than all before it",
            Turns.REPAIR: "correct ones after one that was not",
            Turns.ALL_UNTIL_BEST: "all up to the fastest",
            Turns.RETURN_TO_GO: "by discounted return",
        },
    ),
    Field(
        name="best_of",
        label="Sampling",
        help="Samples of one problem that are taken.",
        default=str(_USUAL.best_of),
        options={
            BestOf.ALL: "all",
            BestOf.TOP_K: "the k fastest",
            BestOf.THRESHOLD: "those faster than 1×",
            BestOf.EPSILON_BEST: "the shortest within 5 % of the fastest",
            BestOf.ANNA_KARENINA: "the first correct one and every failure",
        },
    ),
    Field(
        name="similarity",
        label="Near-duplicates",
        help="How answers that say the same are found; one of them is kept.",
        default=str(_USUAL.similarity),
        options={
            Similarity.NONE: "keep all",
            Similarity.RAW: "same text",
            Similarity.NORMALISED: "same but for comments and spaces",
            Similarity.RENAMED: "same but for names, too",
            Similarity.MINHASH: "similar tokens (MinHash)",
        },
    ),
    Field(
        name="reasoning",
        label="Reasoning",
        help="Text up to </think> in answers.",
        default=str(_USUAL.reasoning),
        options={
            Reasoning.KEEP: "keep",
            Reasoning.DROP_HISTORY: "drop it in earlier turns",
            Reasoning.DROP_ALL: "drop it everywhere",
        },
    ),
    Field(
        name="stale",
        label="Outdated verdicts",
        help="Verdicts given by earlier versions of detectors or under another policy.",
        default=str(_USUAL.stale),
        options={Stale.REFUSE: "leave the evaluation out", Stale.REJUDGE: "judge it again"},
    ),
    Field(
        name="policy",
        label="Policy",
        help="Rules by which findings become a verdict.",
        default=policies.DEFAULT.key,
        options={name: name for name in policies.POLICIES},
    ),
    Field(
        name="max_speedup",
        label="Max speedup",
        help="Faster ones, as measured, are not believed.",
        default="no limit",
        unit="×",
    ),
    Field(
        name="min_coverage",
        label="Min custom-kernel share",
        help="Share of GPU time in the candidate's own kernels, 0 to 1.",
        default="no limit",
    ),
    Field(
        name="reviewed_above",
        label="Review required above",
        help="From this measured speedup on, a person must have reviewed the evaluation.",
        default="never",
        unit="×",
    ),
    Field(
        name="k",
        label="k",
        help="Answers per problem, for the sampling “the k fastest”.",
        default=str(_USUAL.k),
    ),
    Field(
        name="max_tokens",
        label="Max tokens per row",
        help="Longest row, history and answer together, at 4 bytes a token.",
        default="no limit",
        unit="tokens",
    ),
    Field(
        name="max_per_problem",
        is_common=True,
        label="Max rows per problem",
        help="Further rows of a problem are left out.",
        default="no limit",
        unit="rows",
    ),
    Field(
        name="seed",
        label="Seed",
        help="Seed of the split and of every draw, a whole number.",
        default=str(_USUAL.seed),
    ),
    Field(
        name="val_fraction",
        label="Validation share",
        help="Share of problem families held out for validation, 0 to 1.",
        default=f"{_USUAL.val_fraction:g}",
    ),
)
"""Fields of a selection beside format and filter; the command line has all of them."""

FIELDS = ("format", "where", *(option.name for option in OPTIONS))


def spec_of(given: Any) -> Spec:
    """The selection that a form or a URL asks for.  ValueError with the field that
    makes no sense.
    """
    values = {name: str(given[name]).strip() for name in FIELDS if str(given.get(name, "")).strip()}
    filter_language.parse(values.get("where", ""))
    try:
        spec = msgspec.convert(values, Spec, strict=False)
    except msgspec.ValidationError as error:
        name = located(str(error))
        expected = {option.name: option for option in OPTIONS}.get(name)
        if expected is None:
            raise ValueError(str(error)) from error
        listed = f"one of {', '.join(expected.options)}" if expected.options else "a number"
        raise ValueError(f"{name}: expected {listed}, got {values[name]!r}") from error
    kind_of(spec)
    if spec.policy is not None:
        policies.find(spec.policy)
    return spec


def as_json(spec: Spec) -> dict[str, Any]:
    """Fields of a selection as JSON values, for the form and for links."""
    found: dict[str, Any] = msgspec.to_builtins(
        {name: getattr(spec, name) for name in spec.__dataclass_fields__}
    )
    return found


def arguments(spec: dict[str, Any]) -> dict[str, str]:
    """Fields of a selection that differ from the default, as arguments of the form."""
    usual = as_json(Spec())
    return {
        name: str(spec[name])
        for name in FIELDS
        if spec.get(name) not in (None, "") and spec[name] != usual[name]
    }


def located(message: str) -> str:
    """Name of the field that an error of `spec_of` is about; empty where it is about
    none or several.
    """
    found = re.match(r"([a-z_]+):", message) or re.search(r"\$\.([a-z_]+)`?$", message)
    return found[1] if found and found[1] in FIELDS else ""
