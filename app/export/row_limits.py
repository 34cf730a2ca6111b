"""EXPORT: limits on the rows of a problem and of a family: of pairs and labelled answers, too, they
count rows, and not the answers that rows are made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest

from app.domain.dataset import sampling
from app.domain.dataset.attempt import Attempt
from app.domain.dataset.selection import Kind, PairOf, Spec
from app.export.decisions import Decisions, with_earlier, without
from app.export.funnel_stages import BALANCE
from app.export.plan_tables import Pick


def within(found: Sequence[Pick], spec: Spec, kind: Kind, of_family: int) -> list[Pick]:
    """The rows of one problem that the limits allow, in their order; `found` has the best ones
    first, `of_family` rows of their family are taken already.

    Pairs that people have preferred go before measured ones, and right answers alternate with
    failures."""
    if kind is Kind.LABELLED:
        good = [one for one in found if one.extra.label]
        bad = [one for one in found if not one.extra.label]
        wanted = [one for one in chain.from_iterable(zip_longest(good, bad)) if one is not None]
    else:
        wanted = sorted(found, key=lambda one: one.extra.why != PairOf.PREFERRED)
    kept = sampling.balanced(wanted, spec)
    if spec.max_per_family is not None:
        kept = kept[: max(0, spec.max_per_family - of_family)]
    chosen = set(map(id, kept))
    return [one for one in found if id(one) in chosen]


def note(
    found: Sequence[Pick],
    kept: Sequence[Pick],
    kind: Kind,
    earlier: Mapping[int, list[Attempt]],
    decisions: Decisions,
) -> None:
    """Record the answers that leave by the limits, and the roles of the others in their rows."""
    if kind is Kind.PAIRS:
        decisions.take([one.rejected for one in kept if one.rejected], "rejected of a pair")
        decisions.take([one.attempt for one in kept], None)
    if kind is Kind.LABELLED:
        decisions.take([one.attempt for one in kept if not one.extra.label], "labelled bad")
    chosen = [one.attempt for one in found if kind is not Kind.LABELLED or one.extra.label]
    shown = [one.attempt for one in kept] + [one.rejected for one in kept if one.rejected]
    decisions.drop(with_earlier(without(chosen, shown), earlier), BALANCE, None)
