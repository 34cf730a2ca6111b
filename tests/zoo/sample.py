"""Sample of the zoo for the usual test run: small, with every kind of outcome and every way of
cheating.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Hashable, Iterable

from app.domain.zoo import Case

SHARE, HONEST_SHARE = 16, 12
"""One in SHARE candidates of each kind is in the sample, of honest ones one in HONEST_SHARE, and
one at least.
"""


def kind(case: Case) -> tuple[Hashable, ...]:
    """Group and expected outcome on the CPU device: the same for candidates of one kind."""
    return case.group, case.on_cpu.status, case.on_cpu.verdict, case.on_cpu.findings


def facts(case: Case) -> set[Hashable]:
    """Properties of a candidate; each is in the sample at least once."""
    ways = {("way", code) for code in case.codes}
    return ways | {
        ("backend", kind(case), case.backend),
        ("form", case.group, case.is_by_cases),
        ("speedup", case.group, case.on_cpu.speedup),
    }


def chosen(cases: Iterable[Case]) -> list[Case]:
    """The sample, in the order of `cases`: first candidates that together have every fact, the one
    with most new facts first; then further ones of each kind, on problems that are not yet in it.
    """
    given = list(cases)
    left = sorted(given, key=lambda case: hashlib.sha256(case.name.encode()).digest())
    missing = {fact for case in left for fact in facts(case)}
    alike = Counter(map(kind, left))
    found: list[Case] = []

    def take(case: Case) -> None:
        found.append(case)
        left.remove(case)

    while missing:
        take(max(left, key=lambda case: len(facts(case) & missing)))
        missing -= facts(found[-1])
    for which, count in alike.items():
        have = sum(kind(case) == which for case in found)
        share = HONEST_SHARE if which[0] == "honest" else SHARE
        for _ in range(have, max(1, count // share)):
            seen = {case.problem for case in found}
            take(
                max(
                    (case for case in left if kind(case) == which),
                    key=lambda case: case.problem not in seen,
                )
            )
    return [case for case in given if case in found]
