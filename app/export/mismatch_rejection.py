"""EXPORT: mismatch rejection (MRS, Dr. Kernel eq. 6) of stored turns: log probabilities that are
stored of the rollout engine against the trainer's in a file.

A ratio of a trajectory is over all turns of its line of attempts
(app.store.trajectory.attempt_lines): of a collection's sample, whatever its prompts show.  Where
one of them lacks log probabilities of either side, none of the line has a ratio.  Turns without a
ratio are an error, or stay where `partial` says so.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import Any

from app.domain.credit import REASONS, CreditError, Dropped, MismatchRejection, TokenRatios, Turn
from app.domain.credit.mismatch import Pair
from app.domain.credit.rejection import OF_TRAJECTORY, unit_ratios, vetoed
from app.export import trainer_logprobs
from app.store.collection import logprobs
from app.store.collection.logprobs import TurnKey
from app.store.postgres.database import Connection

BATCH = 200
"""Lines of the file that are compared together: a turn has thousands of log probabilities."""
FEW = 3
"""Turns that an error names."""

KEPT, NO_RATIO = "kept", "no ratio"
"""In counts: a turn that stays, and one that stays because log probabilities are missing."""

At = tuple[str | None, int | None]
"""Trajectory and turn; None for a candidate that came alone."""


@dataclass(frozen=True, kw_only=True)
class TurnDecision:
    """Decision on one turn."""

    dropped: Dropped | None
    """MISMATCH, VETO, or None for a turn that stays."""
    detail: str
    """For people."""


@dataclass(kw_only=True)
class Ratios:
    """Ratios of the turns that a file covers, and the decisions of one selection."""

    declared: MismatchRejection
    by_turn: dict[str, TokenRatios] = field(default_factory=dict)
    outcomes: dict[At, TurnDecision] = field(default_factory=dict)
    modes: Counter[str] = field(default_factory=Counter)
    """Mode of the rollout engine's log probabilities → calls."""
    counts: Counter[str] = field(default_factory=Counter)
    """Reason, KEPT or NO_RATIO → turns that were asked about."""
    without: list[At] = field(default_factory=list)
    """Turns without a ratio that were asked about."""

    def of(self, at: At) -> TurnDecision | None:
        """Decision on a turn; None where it has no ratio."""
        found = self.outcomes.get(at)
        self._count(at, None if found is None else str(found.dropped or KEPT))
        return found

    def ratio(self, turn_id: str, at: At) -> TokenRatios | None:
        """Ratio of the turn alone; None where it has none."""
        found = self.by_turn.get(turn_id)
        self._count(at, None if found is None else KEPT)
        return found

    def _count(self, at: At, outcome: str | None) -> None:
        if outcome is None:
            self.without.append(at)
        self.counts[outcome or NO_RATIO] += 1

    def summary(self) -> dict[str, Any]:
        """Settings and counts, for manifests and cards."""
        named = {
            "file": self.declared.file,
            "sha256": self.declared.sha256,
            "partial": self.declared.partial,
        }
        bounds = asdict(self.declared.mismatch)
        return (
            named
            | bounds
            | {
                "turns": dict(sorted(self.counts.items())),
                "modes": dict(sorted(self.modes.items())),
            }
        )


def declare(file: Path, **settings: Any) -> MismatchRejection:
    """Mismatch rejection by a file, with the hash of its bytes.  Raises CreditError
    where it cannot be read.
    """
    return MismatchRejection(file=str(file.absolute()), sha256=_sha256(file), **settings)


def read(connection: Connection, declared: MismatchRejection, as_of: datetime | None) -> Ratios:
    """Ratios of every stored turn that the file covers; with `as_of`, older than that.

    Raises CreditError for a file that cannot be read or is not the declared one."""
    file, found = Path(declared.file), Ratios(declared=declared)
    if (sha256 := _sha256(file)) != declared.sha256:
        raise CreditError(f"{file}: expected the file of sha256 {declared.sha256}, got {sha256}")
    touched: set[str] = set()
    entries = trainer_logprobs.entries(file)
    while batch := dict(islice(entries, BATCH)):
        for call in _calls(connection, batch, as_of):
            values = trainer_logprobs.of(batch, call)
            if values is not None:
                found.by_turn[call.turn_id] = Pair(train=values, rollout=call.logprobs or []).ratios
                found.modes[call.mode or "not known"] += 1
                touched.add(call.trajectory_id)
    places = logprobs.places(connection, sorted(touched), as_of)
    for _, turns in groupby(places, key=attrgetter("line")):
        found.outcomes |= _decided(list(turns), found.by_turn, declared)
    return found


def require(connection: Connection, found: Ratios | None, as_of: datetime | None) -> None:
    """Raise CreditError that names the turns without a ratio that were asked about, unless they may
    stay; None: no mismatch rejection.
    """
    if found is None or not found.without or found.declared.partial:
        return
    trajectories = {trajectory for trajectory, _ in found.without if trajectory is not None}
    places = list(logprobs.places(connection, sorted(trajectories), as_of))
    stored = {(one.trajectory_id, one.turn) for one in places if one.sampled}
    given = {(one.trajectory_id, one.turn) for one in places if one.turn_id in found.by_turn}
    file = found.declared.file
    reasons: dict[str, Callable[[At], bool]] = {
        "came without a turn": lambda at: at[1] is None,
        "have no stored log probabilities of the rollout engine"
        " (sampling.token_ids asks for them)": (lambda at: at[1] is not None and at not in stored),
        f"are not in {file}": lambda at: at in stored and at not in given,
        "have turns beside them in their trajectory or sample that lack either": (
            lambda at: at in given
        ),
    }
    told = "; ".join(
        f"{len(named)} {reason}: {_named(named)}"
        for reason, applies in reasons.items()
        if (named := [at for at in found.without if applies(at)])
    )
    raise CreditError(
        "mrs: expected log probabilities of trainer and rollout engine for all"
        f" {found.counts.total()} turns, got them for {found.counts.total() - len(found.without)}:"
        f" {told} (partial: they stay)"
    )


def card(summary: dict[str, Any]) -> str:
    """Section of a dataset's card."""
    asked = {KEPT: "kept", NO_RATIO: "kept without log probabilities"} | {
        str(reason): REASONS[reason] for reason in (Dropped.MISMATCH, Dropped.VETO)
    }
    lines = "\n".join(
        f"| {asked[reason]} | {count} |" for reason, count in summary["turns"].items()
    )
    modes = (
        ", ".join(f"{mode} of {count} calls" for mode, count in summary["modes"].items()) or "none"
    )
    return f"""## Mismatch rejection

Ratio π_train / π_rollout of the answers that reach stage `mrs`: level `{summary["level"]}`, kept \
in [{summary["lower"]:g}, {summary["upper"]:g}], veto of a token below {summary["veto"]}. The \
trainer's log probabilities are of `{summary["file"]}` (sha256 `{summary["sha256"]}`), the rollout \
engine's as stored ({modes}; raw ones ignore the temperature).

| turns | count |
|---|--:|
{lines}"""


def _named(turns: Iterable[At]) -> str:
    listed = list(turns)
    shown = ", ".join(f"trajectory {trajectory} turn {turn}" for trajectory, turn in listed[:FEW])
    return shown + (", …" if len(listed) > FEW else "")


def _sha256(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise CreditError(
            f"{file}: expected a file with the trainer's log probabilities: {error.strerror}"
        ) from error


def _calls(
    connection: Connection, batch: dict[trainer_logprobs.Key, list[float]], as_of: datetime | None
) -> Iterator[logprobs.Sampled]:
    for kind in logprobs.KINDS:
        wanted = {key[1] for key in batch if key[0] == kind}
        if wanted:
            yield from logprobs.of_keys(connection, kind, wanted, as_of)


def _decided(
    turns: list[TurnKey], ratios: dict[str, TokenRatios], declared: MismatchRejection
) -> dict[At, TurnDecision]:
    """Decisions on the turns of a line that have a ratio."""
    mismatch = declared.mismatch
    known = [one for one in turns if one.turn_id in ratios]
    if mismatch.level in OF_TRAJECTORY and len(known) < len(turns) and not declared.partial:
        return {}
    members = [
        Turn(
            group="",
            trajectory=one.line,
            index=one.step + 1,
            reward=None,
            ratios=ratios[one.turn_id],
        )
        for one in known
    ]
    found: dict[At, TurnDecision] = {}
    for place, turn, ratio in zip(
        known, members, unit_ratios(members, mismatch.level), strict=True
    ):
        dropped, detail = None, f"train/rollout {ratio:.6g} ({mismatch.level})"
        if not mismatch.lower <= ratio <= mismatch.upper:
            dropped, detail = (
                Dropped.MISMATCH,
                f"{detail}, outside {mismatch.lower:g} to {mismatch.upper:g}",
            )
        elif vetoed(turn, mismatch):
            least = math.exp(ratios[place.turn_id].log_least)
            dropped, detail = (
                Dropped.VETO,
                f"train/rollout {least:.3g} of a token, below {mismatch.veto:g}",
            )
        found[place.trajectory_id, place.turn] = TurnDecision(dropped=dropped, detail=detail)
    return found
