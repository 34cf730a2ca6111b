"""EXPORT: benchmarks with problems that are kept out of training data unless they are asked for.

The files beside this one hold keys (`app.domain.dataset.problem_family`,
`workers/shims/problem/observers/operators.py`), never code: hashes of the computation of each
problem, made by `python -m tests.bench.benchmark_keys` from the benchmark's own repository, in
every published version.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from app.domain.dataset import problem_family
from app.domain.dataset.decontamination import Match

FILES = ("kernelbench.json",)


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One benchmark's keys."""

    name: str
    source: str
    """Repository and commits."""
    families: Mapping[str, str]
    """Family key → problem."""
    operators: Mapping[str, str]
    """Semantic key without numbers → problem."""

    def match(self, family_key: str | None, operators: str | None) -> Match | None:
        """The problem of the benchmark that has the same semantic key, else the same
        family; None for neither.

        `operators`: `<version>:<with numbers>:<without>` as `Evaluation.operators`
        has it, None where unknown.
        """
        found, rule = self.operators.get(_unnumbered(operators)), "semantic"
        if found is None:
            found, rule = self.families.get(family_key or ""), "family"
        return (
            None
            if found is None
            else Match(held_out=f"{self.name}/{found}", rule=rule, similarity=1.0)
        )


@functools.cache
def known() -> tuple[Benchmark, ...]:
    """Every benchmark.  ValueError for a file made with other keys than this version's."""
    return tuple(_read(name) for name in FILES)


def match(family_key: str | None, operators: str | None) -> Match | None:
    """The benchmark problem that a problem is; None where it is none."""
    found = (benchmark.match(family_key, operators) for benchmark in known())
    return next((each for each in found if each is not None), None)


def _read(name: str) -> Benchmark:
    fields = json.loads(resources.files(__package__).joinpath(name).read_text(encoding="utf-8"))
    if fields["family_version"] != problem_family.VERSION:
        raise ValueError(
            f"{name}: expected keys of version {problem_family.VERSION}, got"
            f" {fields['family_version']}"
        )
    families: dict[str, str] = {}
    operators: dict[str, str] = {}
    for problem, keys in fields["problems"].items():
        for key in keys["family"]:
            families.setdefault(key, problem)
        for key in keys["operators"]:
            operators.setdefault(key, problem)
    return Benchmark(
        name=fields["name"], source=fields["source"], families=families, operators=operators
    )


def _unnumbered(operators: str | None) -> str:
    """The version and the half of a semantic key that has no numbers."""
    version, _, rest = (operators or "").partition(":")
    return f"{version}:{rest.partition(':')[2]}"
