"""Pairs that people prefer: their word counts more than a measurement, and the last word most."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from app import export
from app.domain.source.near_duplicates import Similarity
from app.domain.user import LOCAL
from app.store.postgres.database import Database
from app.store.review import reviews
from app.store.trajectory import trajectories
from tests.integration.dataset_seed import Stored, code, evaluate, problem, turn
from tests.integration.exported import rows_in


def prefer(database: Database, chosen: Stored, rejected: Stored) -> None:
    with database.begin() as connection:
        reviews.prefer(
            connection,
            LOCAL,
            chosen=chosen.evaluation_id,
            rejected=rejected.evaluation_id,
            reason="as the test wants",
        )


def stored(database: Database) -> tuple[Stored, Stored]:
    """A fast and a slow candidate for one prompt."""
    with database.begin() as connection:
        fast, slow = (
            evaluate(connection, problem(0), code(kind).encode(), kind) for kind in ("fast", "slow")
        )
    return fast, slow


def pairs(database: Database, out: Path) -> list[tuple[UUID, UUID, str]]:
    spec = export.Spec(format="trl_preference", similarity=Similarity.RAW, val_fraction=0)
    export.export(database, spec, out)
    return [
        (UUID(row["evaluation_id"]), UUID(row["rejected_evaluation_id"]), row["pair"])
        for row in rows_in(out)
    ]


def test_a_preference_replaces_the_pair_that_speed_would_make(
    database: Database, tmp_path: Path
) -> None:
    fast, slow = stored(database)
    measured = (fast.evaluation_id, slow.evaluation_id, "fast_slow")
    assert pairs(database, tmp_path / "measured") == [measured]
    prefer(database, fast, slow)
    assert pairs(database, tmp_path / "same") == [(*measured[:2], "preferred")]
    prefer(database, slow, fast)
    other = (slow.evaluation_id, fast.evaluation_id, "preferred")
    assert pairs(database, tmp_path / "other") == [other]


def test_an_export_without_a_pair_says_that_pairs_were_sought(
    database: Database, tmp_path: Path
) -> None:
    with database.begin() as connection:
        evaluate(connection, problem(0), code("fast").encode(), "fast")
    with pytest.raises(export.ExportError, match="of two answers to the same messages: fast_slow"):
        pairs(database, tmp_path / "none")


def test_a_preference_is_of_every_turn_with_the_evaluation(
    database: Database, tmp_path: Path
) -> None:
    fast, slow = stored(database)
    prefer(database, slow, fast)
    with database.begin() as connection:
        for prompt in ("the same", "another"):
            told = turn((prompt,), f"```python\n{code('fast')}```", fast)
            trajectories.add(connection, problem_id=fast.problem_id, backend="triton", turns=[told])
        told = turn(("the same",), f"```python\n{code('slow')}```", slow)
        trajectories.add(connection, problem_id=fast.problem_id, backend="triton", turns=[told])
    assert pairs(database, tmp_path / "set") == [
        (slow.evaluation_id, fast.evaluation_id, "preferred")
    ]
