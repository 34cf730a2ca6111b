"""One source evaluated twice: a hack in one evaluation is no answer to learn from in the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from app import export
from app.domain import ids
from app.domain.review import Opinion
from app.domain.trajectory import Run
from app.domain.user import Role, User, user
from app.export import spec_of, why
from app.store import tables
from app.store.dataset import listing, stale_exports
from app.store.postgres.database import Database
from app.store.review import reviews
from app.store.review.reviews import GivenReview
from app.store.trajectory import trajectories
from tests.integration import dataset_seed, exported
from tests.integration.dataset_seed import code, evaluate, problem

SAME = code("same").encode()


def twice(database: Database, kind: str, of: int = 1) -> tuple[UUID, UUID]:
    """Clean on a GPU, in a run; of that kind on the CPU, alone."""
    with database.begin() as connection:
        right = evaluate(connection, problem(1), SAME, "fast", device="h200")
        told = dataset_seed.turn(("Write it.",), f"```python\n{code('same')}```", right)
        run_id = trajectories.add_run(connection, Run(name="r", model="m"))
        trajectories.add(
            connection, problem_id=right.problem_id, backend="triton", turns=[told], run_id=run_id
        )
        other = evaluate(connection, problem(of), SAME, kind)
        evaluate(connection, problem(2), code("another").encode(), "fast", device="h200")
    return right.evaluation_id, other.evaluation_id


def answers(database: Database, out: Path, **options: Any) -> set[str]:
    export.export(database, spec_of({"val_fraction": 0.0, "similarity": "none"} | options), out)
    assert export.verify(out) == []
    return {row["evaluation_id"] for row in exported.rows_in(out)}


def reviewer(connection: sa.Connection) -> User:
    user_id = ids.new_id()
    connection.execute(tables.users.insert().values(user_id=user_id, name="r", role=Role.REVIEWER))
    return user(user_id=user_id, name="r", role=Role.REVIEWER)


@pytest.mark.parametrize("where", ["", "run = r or level = 3"])
def test_a_hack_of_one_evaluation_is_no_answer_of_another(
    database: Database, tmp_path: Path, where: str
) -> None:
    right, _ = twice(database, "hack")
    assert str(right) not in answers(database, tmp_path / "out", where=where)
    [decision] = why(tmp_path / "out", str(right))
    assert decision["stage"] == "clean"
    assert "nor is another evaluation of the source a hack" in decision["rule"]


@pytest.mark.parametrize(("kind", "of"), [("suspect", 1), ("incorrect", 1), ("hack", 3)])
def test_other_outcomes_and_other_problems_change_nothing(
    database: Database, tmp_path: Path, kind: str, of: int
) -> None:
    right, _ = twice(database, kind, of)
    assert str(right) in answers(database, tmp_path / "out")


def test_a_review_counts_for_every_evaluation_of_the_source(
    database: Database, tmp_path: Path
) -> None:
    right, other = twice(database, "fast")
    assert str(right) in answers(database, tmp_path / "before")
    with database.begin() as connection:
        person = reviewer(connection)
        review_id = reviews.add(
            connection, person, other, GivenReview(label=Opinion.HACK, reason="copies the input")
        )
        [stale] = [one for one in listing.datasets(connection) if one.stale_at is not None]
    assert str(other) in (stale.stale_reason or "")
    assert str(right) not in answers(database, tmp_path / "after")
    manifest = exported.json.loads((tmp_path / "before/manifest.json").read_text())
    assert export.reproduce(database, manifest, tmp_path / "again")[1] == []
    with database.begin() as connection:
        stale_ones = {
            Path(one.directory).name
            for one in listing.datasets(connection)
            if one.stale_at is not None
        }
        assert stale_ones == {
            "before",
            "again",
        }, "a dataset that is made again as it was is stale from the beginning"
        reviews.undo(connection, person, review_id)
        assert [one for one in listing.datasets(connection) if one.stale_at is not None] == []
    assert str(right) in answers(database, tmp_path / "undone")


def test_a_cleared_hack_lets_the_other_evaluation_in(database: Database, tmp_path: Path) -> None:
    right, other = twice(database, "hack")
    with database.begin() as connection:
        reviews.add(
            connection,
            reviewer(connection),
            other,
            GivenReview(label=Opinion.CLEAN, reason="a false alarm"),
        )
    assert str(right) in answers(database, tmp_path / "out")


def test_judging_again_marks_datasets_with_the_same_source(
    database: Database, tmp_path: Path
) -> None:
    right, other = twice(database, "fast")
    assert str(right) in answers(database, tmp_path / "out")
    with database.begin() as connection:
        [made] = [one.export_id for one in listing.datasets(connection)]
        assert stale_exports.resting_on(connection, other, before="clean", after="suspect") == []
        assert stale_exports.resting_on(connection, other, before="clean", after="hack") == [made]
        assert stale_exports.mark(
            connection, other, before="clean", after="hack", why="judged again"
        ) == [made]


def test_a_label_that_comes_back_by_a_detour_makes_the_dataset_fresh(
    database: Database, tmp_path: Path
) -> None:
    right, other = twice(database, "fast")
    assert str(right) in answers(database, tmp_path / "out")
    with database.begin() as connection:
        for before, after in (("clean", "hack"), ("hack", "suspect"), ("suspect", "clean")):
            stale_exports.mark(connection, other, before=before, after=after, why="judged again")
        [made] = listing.datasets(connection)
    assert made.stale_at is None
