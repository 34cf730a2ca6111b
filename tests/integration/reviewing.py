"""Two people and the evaluations that wait for their review."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa

from app.domain import filter_language
from app.domain.review import Opinion
from app.domain.user import Role, User, user
from app.store import tables
from app.store.browse import candidates, evaluation, paging, review
from app.store.filter import rare_filters
from app.store.postgres.database import Database
from app.store.review import reviews
from app.store.review.review_queues import EVERYTHING
from app.store.review.reviews import GivenReview
from tests.integration.seed_environments import TRITON
from tests.integration.seed_evaluations import CLEAN, HACK, SUSPECT, cheating, passed
from tests.integration.web_seeder import Seeder

ALL: paging.Window[Any] = paging.Window()


@dataclass
class World:
    """A problem with a clean, a suspect, and a hacking candidate, and two reviewers."""

    database: Database
    ids: dict[str, UUID] = field(default_factory=dict)
    ada: User = field(init=False)
    ben: User = field(init=False)

    def say(
        self, name: str, label: Opinion, reason: str = "line 7 returns the cache", **more: object
    ) -> UUID:
        return self.say_as(self.ada, name, label, reason, **more)

    def say_as(
        self, who: User, name: str, label: Opinion, reason: str = "as far as I see", **more: object
    ) -> UUID:
        with self.database.begin() as connection:
            said = GivenReview(label=label, reason=reason, **more)  # type: ignore[arg-type]
            return reviews.add(connection, who, self.ids[name], said)

    def believed(self, name: str) -> evaluation.Believed:
        with self.database.snapshot() as connection:
            return evaluation.believed(connection, self.ids[name])

    def matches(self, text: str) -> set[str]:
        with self.database.snapshot() as connection:
            of = rare_filters.narrowed(connection, filter_language.parse(text))
            found = {row.evaluation_id for row in candidates.page(connection, of, ALL).rows}
        return {name for name, evaluation_id in self.ids.items() if evaluation_id in found}

    def queue(self) -> list[str]:
        names = {evaluation_id: name for name, evaluation_id in self.ids.items()}
        with self.database.snapshot() as connection:
            return [
                names[item.evaluation_id] for item in review.page(connection, EVERYTHING, ALL).rows
            ]


def seeded(database: Database) -> World:
    """Four candidates, and two people."""
    world = World(database=database)
    rng = random.Random(7)
    with database.begin() as connection:
        seeder = Seeder(connection)
        problem_id = seeder.problem("softmax", 1, "torch.softmax(x, dim=-1)")
        measured = {
            "clean": (passed(rng, speedup=1.2), CLEAN),
            "suspect": (passed(rng, speedup=3.4), SUSPECT),
            "slow suspect": (passed(rng, speedup=1.01), SUSPECT),
            "hack": (cheating(rng), HACK),
        }
        for name, (measurement, verdict) in measured.items():
            job_id = seeder.job(problem_id, TRITON.format(name="softmax", block=64).encode())
            world.ids[name] = seeder.evaluation(job_id, measurement, verdict)
        people = []
        for name in ("ada", "ben"):
            user_id = uuid4()
            connection.execute(
                tables.users.insert().values(user_id=user_id, name=name, role=Role.REVIEWER)
            )
            people.append(user(user_id=user_id, name=name, role=Role.REVIEWER))
    world.ada, world.ben = people
    return world


def asked_for_again(world: World, name: str, run: str) -> None:
    """A turn of a run whose answer is a candidate that was evaluated before."""
    with world.database.begin() as connection:
        job_id = connection.scalar(
            sa.select(tables.evaluations.c.job_id).where(
                tables.evaluations.c.evaluation_id == world.ids[name]
            )
        )
        problem_id = connection.scalar(
            sa.select(tables.jobs.c.problem_id).where(tables.jobs.c.job_id == job_id)
        )
        run_id = uuid4()
        seeder = Seeder(connection)
        seeder.insert(tables.runs, run_id=run_id, name=run, settings={})
        trajectory_id = seeder.trajectory(problem_id, run_id, "", [])
        seeder.turn_of(job_id, trajectory_id)


def export(world: World, *names: str) -> UUID:
    export_id = uuid4()
    with world.database.begin() as connection:
        values = {
            "format": "trl_sft",
            "where_text": "",
            "directory": "/nowhere",
            "row_count": len(names),
        }
        connection.execute(
            tables.exports.insert().values(export_id=export_id, manifest={}, **values)
        )
        for index, name in enumerate(names):
            row = {"export_id": export_id, "row_index": index, "evaluation_id": world.ids[name]}
            connection.execute(tables.export_rows.insert().values(row))
    return export_id


def stale(world: World, export_id: UUID) -> str | None:
    with world.database.snapshot() as connection:
        query = sa.select(tables.exports.c.stale_reason).where(
            tables.exports.c.export_id == export_id
        )
        found: str | None = connection.scalar(query)
    return found
