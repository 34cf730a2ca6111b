"""JUDGE: judges a stored evaluation again, without a device: one rule for the CLI,
the web pages and exports.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from app.domain import policy as policies
from app.domain.policy import Policy
from app.domain.verdict import Label, Subject, Verdict
from app.judge import judge
from app.store.dataset import stale_exports
from app.store.evaluation import evaluations
from app.store.postgres.database import Connection


class JudgingError(Exception):
    """A detector raised; its error is the cause.  The evaluation keeps its verdict."""


@dataclass(frozen=True, kw_only=True)
class Rejudged:
    """Verdicts of one evaluation before and after, and the datasets that the change makes stale."""

    evaluation_id: UUID
    before: Verdict | None
    after: Verdict
    policy: Policy
    stale: list[UUID] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """True if anything of the verdict differs, versions of detectors included."""
        return self.before != self.after

    @property
    def label_before(self) -> Label | None:
        """Label of the previous verdict; None if there is none."""
        return None if self.before is None else self.before.label


def rejudge(
    connection: Connection,
    stored: evaluations.StoredEvaluation,
    policy: Policy | None = None,
    *,
    dry_run: bool = False,
) -> Rejudged:
    """Judge under `policy`, by default the newest version of the last verdict's
    policy, in the caller's transaction.

    A verdict that differs from the current one is stored; if its label differs, datasets that
    rest on it become stale. `dry_run` stores nothing and returns the datasets that would
    become stale.  Raises JudgingError.
    """
    before = evaluations.verdict(connection, stored.evaluation_id)
    asked = policy or last_policy(before)
    after = judged(stored.subject, asked)
    found = Rejudged(evaluation_id=stored.evaluation_id, before=before, after=after, policy=asked)
    if found.changed and not dry_run:
        evaluations.add_verdict(connection, stored.evaluation_id, found.after)
    found.stale.extend(_stale(connection, found, dry_run=dry_run))
    return found


def judged(subject: Subject, policy: Policy) -> Verdict:
    """The verdict that this version's detectors give.  Raises JudgingError."""
    try:
        return judge(subject, policy)
    except Exception as error:  # a detector may be a plug-in, and raise anything
        raise JudgingError(f"{type(error).__name__}: {error}") from error


def last_policy(before: Verdict | None) -> Policy:
    """The newest version of the verdict's policy; the default without a verdict or
    if that policy does not exist.
    """
    known = before is not None and before.policy.partition("@")[0] in policies.POLICIES
    return policies.find(before.policy) if before is not None and known else policies.DEFAULT


def _stale(connection: Connection, found: Rejudged, *, dry_run: bool) -> list[UUID]:
    if found.label_before == found.after.label:
        return []
    before, after = found.label_before, found.after.label
    if dry_run:
        return stale_exports.resting_on(connection, found.evaluation_id, before=before, after=after)
    why = f"under {found.after.policy}"
    return stale_exports.mark(connection, found.evaluation_id, before=before, after=after, why=why)
