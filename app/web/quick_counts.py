"""BROWSE: the counts beside the form of a new dataset: as many of the latest
evaluations as a page has time for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import flask

from app import formats
from app.detectors import DETECTORS
from app.domain import policy as policies
from app.domain.dataset.selection import Spec
from app.store.browse import exports
from app.store.postgres.database import DatabaseUnavailableError
from app.web import request_context

WHOLE = "Run full funnel"
"""Label of the button that counts every evaluation."""
COUNTED = (2_000, 20_000, exports.LATEST)
"""Latest evaluations that counts look at: the first one is on the page at once, each
further one takes its place.
"""
COUNT_BUDGET_S = 3.0
"""Seconds that a further count may be expected to take: a busy machine shows a smaller one."""

Counting = Callable[[int], tuple[Sequence[exports.QuickStage], float]]
"""Latest evaluations to look at → stages with their counts, and the seconds that counting took."""


def render(spec: Spec, *, is_first: bool = False) -> str:
    """Counts over as many of the latest evaluations as COUNT_BUDGET_S allows, or
    that counting takes too long.
    """
    try:
        stages = widest(partial(_counted, spec), COUNTED[:1] if is_first else COUNTED[1:])
    except DatabaseUnavailableError:
        return flask.render_template(
            "_funnel.html", stages=[], error=f"Counting takes too long; use “{WHOLE}”."
        )
    return flask.render_template("_funnel.html", stages=stages, error=None)


def widest(count: Counting, sizes: Sequence[int]) -> Sequence[exports.QuickStage]:
    """The count over the largest of `sizes` that is expected to end within COUNT_BUDGET_S; the
    first one is always made.  A count that has reached the oldest evaluation is not repeated.
    """
    stages, took_s = count(sizes[0])
    for before, size in pairwise(sizes):
        if stages[0].rows < before or took_s * size / before > COUNT_BUDGET_S:
            break
        stages, took_s = count(size)
    return stages


def _counted(spec: Spec, latest: int) -> tuple[Sequence[exports.QuickStage], float]:
    """Counts over the latest evaluations, and the seconds they took."""
    versions = {name: detector.version for name, detector in DETECTORS.items()}
    policy = policies.find(spec.policy).key if spec.policy else policies.DEFAULT.key
    kind = spec.kind or formats.find(spec.format).kinds[0]
    started_s = time.monotonic()
    with request_context.database().snapshot() as connection:
        stages = exports.quick_funnel(
            connection, spec, kind, policy=policy, detectors=versions, latest=latest
        )
    return stages, time.monotonic() - started_s
