"""COLLECT: feedback to a model on its answer: one text by outcome, from public facts only.

A version is a way to say it; it is known by the hash of the files that say it, so that a
record tells which words a model was given.  Never shown: seeds, tolerances, changed
inputs of hidden calls, paths.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType, ModuleType

from app.domain.collection import answers
from app.domain.collection.answers import Why
from app.domain.collection.feedback import (
    assay,
    cheats,
    dr_kernel,
    facts,
    missing_names,
    quantities,
    unusable,
    wrong_output,
)
from app.domain.collection.feedback.base import Version, digest
from app.domain.request import RequestError
from app.domain.result import Result

_SHARED = (answers, cheats, facts, missing_names, quantities, unusable, wrong_output)
"""Sources of the words and figures that every version uses."""


def _version(name: str, module: ModuleType) -> Version:
    return Version(name=name, render=module.render, sha256=digest((module, *_SHARED)))


VERSIONS: Mapping[str, Version] = MappingProxyType(
    {"assay": _version("assay", assay), "dr_kernel": _version("dr_kernel", dr_kernel)}
)
"""Name → version: `assay` in sentences, `dr_kernel` as the JSON that its models were trained on."""


@dataclass(frozen=True, kw_only=True)
class Feedback:
    """Text for the model, and the version that says it."""

    text: str
    version: str
    sha256: str


def known(version: str) -> Version:
    """The version of that name.  Raises RequestError."""
    if version not in VERSIONS:
        expected = ", ".join(VERSIONS)
        raise RequestError(f"feedback version: expected one of {expected}, got {version!r}")
    return VERSIONS[version]


def render(version: str, *, result: Result | None, why: str = Why.OK) -> Feedback:
    """Feedback on an evaluated answer, or on one without a candidate (`why`)."""
    found = known(version)
    text = found.render(None if result is None else facts.of(result), Why(why))
    return Feedback(text=text, version=found.name, sha256=found.sha256)
