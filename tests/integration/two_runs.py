"""Two runs of one model on four problems, which went otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import UUID

from flask.testing import FlaskClient

from app.domain import ids
from app.domain.evaluation import Status
from app.embedded import Services
from app.settings import Settings
from app.store import tables
from app.store.postgres.database import Database
from tests.conftest import fresh
from tests.integration.web_app import opened
from tests.integration.web_seeder import Seeder

WRONG = Status.INCORRECT
RESULTS: dict[str, tuple[list[float | Status | None], list[float | Status | None]]] = {
    "softmax": ([1.2] * 12, [WRONG] * 12),
    "gelu": ([WRONG] * 12, [1.3] * 12),
    "norm": ([1.0, 1.01, 1.02, 0.99, 1.0, 1.01], [1.5, 1.52, 1.49, 1.51, 1.5, 1.5]),
    "relu": ([1.1, WRONG], [1.1, 41.0]),
}
"""Problem → outcomes in the first and in the second run, which forgets softmax,
learns gelu, and is faster on norm.
"""


@dataclass
class TwoRuns:
    """Both runs, and a client of the pages over them."""

    settings: Settings
    site: FlaskClient
    runs: list[UUID] = field(default_factory=list)
    problems: list[UUID] = field(default_factory=list)
    trainings: dict[str, UUID] = field(default_factory=dict)
    """Training of a third model → its first run."""


@contextmanager
def made(services: Services) -> Iterator[TwoRuns]:
    """A database of their own with the two runs."""
    with fresh(services) as settings, opened(settings, testing=True) as app:
        found = TwoRuns(settings=settings, site=app.test_client())
        database = Database(settings.database_url or "")
        with database.begin() as connection:
            seeder = Seeder(connection)
            found.problems = [seeder.problem(name, 1, "x") for name in RESULTS]
            for place, step in enumerate((100, 200)):
                run_id = ids.new_id()
                settings_of = {
                    "temperature": 0.7 + place / 10,
                    "harness": "h",
                    "packed": place == 1,
                }
                seeder.insert(
                    tables.runs,
                    run_id=run_id,
                    name=f"rl/{step}",
                    model="coder",
                    step=step,
                    settings=settings_of,
                )
                found.runs.append(run_id)
                for problem_id, outcomes in zip(found.problems, RESULTS.values(), strict=True):
                    for outcome in outcomes[place]:
                        seeder.trajectory(problem_id, run_id, "t", [outcome])
            _train(seeder, found)
        database.dispose()
        yield found


def _train(seeder: Seeder, found: TwoRuns) -> None:
    for training in ("one", "other"):
        for step in (1, 2, 3):
            run_id = (
                found.trainings.setdefault(training, ids.new_id()) if step == 1 else ids.new_id()
            )
            told = {"training": training, "seed": 7}
            named = {
                "name": f"{training} {step}",
                "model": "trained",
                "step": step,
                "settings": told,
            }
            seeder.insert(tables.runs, run_id=run_id, **named)
            speed = 1.0 + 0.5 * step + (training == "other")
            seeder.trajectory(found.problems[0], run_id, "t", [WRONG, speed])
