"""Every page of the web UI, once, over a database with something on each: for tests
that visit them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

import flask
import sqlalchemy as sa
from werkzeug.security import generate_password_hash

from app import broker as brokers
from app import export
from app.domain.dataset.selection import Stale
from app.domain.problem import Problem
from app.domain.remark import AnnotationTarget
from app.domain.review import Opinion
from app.domain.user import SCOPES, Role, Scope, User
from app.embedded import Services
from app.settings import Settings
from app.store import tables
from app.store.collection import endpoints, workers
from app.store.dataset import export_jobs
from app.store.postgres.database import Database
from app.store.review import remarks, reviews
from app.store.trajectory import problems
from app.store.user import tokens, users
from tests.conftest import fresh
from tests.integration import collecting
from tests.integration.web_seed import exportable, seed
from tests.integration.web_seeder import Seeded, Seeder

NAME, PASSWORD = "ada", "correct horse battery staple"

NOT_PAGES = {
    "evaluations.index",  # leads to the candidates
    "evaluations.speedscope",  # a viewer of another project
    "exports.archive",
    "exports.file",
    "exports.funnel",
    "filters.complete",
    "health.check",
    "health.live",
    "jobs.candidate",
    "live.stream",
    "metrics.show",
    "problems.reference",
    "remarks.subject",  # leads to its page
    "search.quick",
    "static",
    "trajectories.as_csv",
    "trajectories.prompt",
    "trajectories.response",
}
"""GET routes that answer with data, a part of a page, or another page."""

TABS = (
    *("prompt", "response", "code", "diff", "compile", "correctness"),
    *("timing", "profile", "verdict", "ir", "raw"),
)
"""Tabs of a turn."""

FIXED = {
    "account.login": ("/login",),
    "account.page": ("/account",),
    "admin.configuration": ("/admin/configuration",),
    "admin.index": ("/admin",),
    "admin.raw": ("/admin/tables/evaluations", "/admin/tables/users"),
    "candidates.index": (
        "/candidates",
        "/candidates?where=speedup+%3E+1",
        "/candidates?where=clean",
    ),
    "collecting.endpoints": ("/endpoints",),
    "collecting.index": ("/collections",),
    "exports.index": ("/exports",),
    "exports.new": ("/exports/new?count=yes", "/exports/new?where=correct+and+clean"),
    "exports.whole_funnel": ("/exports/funnel/whole",),
    "glossary.page": ("/glossary",),
    "hacks.changes": ("/hacks/changes",),
    "hacks.index": ("/hacks",),
    "hacks.page": ("/hacks/stale_output", "/hacks/claimed_time"),
    "jobs.index": ("/jobs",),
    "jobs.new": ("/jobs/new", "/jobs/new?find=soft"),
    "leaderboard.index": ("/leaderboard",),
    "members.events": ("/audit",),
    "members.index": ("/users",),
    "overview.page": ("/?hours=72",),
    "problems.heat_map": ("/problems/levels",),
    "problems.index": ("/problems",),
    "remarks.index": ("/notes",),
    "review.index": ("/review",),
    "review.quality": ("/review/quality",),
    "runs.index": ("/runs",),
    "search.page": ("/search?q=softmax", "/search?q=nothing-at-all"),
    "trainings.index": ("/runs/trainings",),
    "trajectories.index": ("/trajectories",),
}
"""Pages with addresses that name no row."""


def endpoints_of(app: flask.Flask) -> set[str]:
    """Endpoints that answer GET with a page."""
    return {
        rule.endpoint
        for rule in app.url_map.iter_rules()
        if "GET" in (rule.methods or set())
        and not rule.endpoint.startswith(("api.", "kernelgym"))
        and not rule.rule.endswith((".json", ":kind>", "/live"))
        and rule.endpoint not in NOT_PAGES
    }


@dataclass(frozen=True, kw_only=True)
class Everything:
    """A filled database and the addresses of its pages."""

    settings: Settings
    paths: dict[str, tuple[str, ...]]
    """Endpoint → its pages: one for each form that it takes."""


@contextmanager
def filled(services: Services, folder: Path) -> Iterator[Everything]:
    """A database of its own with something for every page, and a user with every right."""
    with fresh(services) as settings:
        settings = replace(settings, state_dir=folder)
        database = Database(settings.database_url or "")
        _collect(database, settings)  # first: it evaluates whatever is queued
        with database.begin() as connection:
            seeded = seed(connection)
            exportable(Seeder(connection), seeded.problems[2])
        for name in ("one", "two"):
            export.export(
                database, export.Spec(format="trl_sft", stale=Stale.REJUDGE), folder / name
            )
        with database.begin() as connection:
            _people(connection, seeded)
            export_jobs.add(connection, {"format": "trl_sft"}, str(folder))
            paths = _paths(connection, seeded)
        database.dispose()
        yield Everything(settings=settings, paths=paths)


def _collect(database: Database, settings: Settings) -> None:
    """One rollout of three turns with token ids."""
    broker = brokers.make_app(settings.broker_url or "")
    said = collecting.said(
        collecting.CODE, token_ids=(5, 6), logprobs=(-0.5, -1.0), prompt_token_ids=(1, 2)
    )
    site = collecting.Site(database, broker, lambda _request: said)
    with database.begin() as connection:
        endpoints.add(connection, collecting.LOCAL)
        problems.add(
            connection,
            [Problem(name="collected", reference=collecting.REFERENCE, source_set="tests")],
        )
    site.start(collecting.specification())
    site.run()
    with database.begin() as connection:
        endpoints.probed(
            connection,
            endpoints.get(connection, "local"),
            {"seed": True, "warnings": ["no usage is reported"]},
        )
        workers.beat(connection, worker="w", endpoint="local", in_flight=1, has_key=True)
    broker.close()


def _people(connection: sa.Connection, seeded: Seeded) -> None:
    """Users, a token, reviews that two people gave, a comment and a tag."""
    stored = generate_password_hash(PASSWORD, "scrypt:1024:8:1")
    people = []
    for name, role in ((NAME, Role.ADMIN), ("vic", Role.REVIEWER)):
        account = users.add(connection, name=name, role=role, password_hash=stored)
        people.append(User(user_id=account.user_id, name=name, role=role, scopes=SCOPES[role]))
        tokens.add(
            connection, user_id=account.user_id, name="trainer", scopes=(Scope.READ, Scope.SUBMIT)
        )
    for number, person in enumerate(people):
        said = reviews.GivenReview(
            label=Opinion.HACK, reason="the clock is patched", second_opinion=not number
        )
        reviews.add(connection, person, seeded.evaluations["suspect"], said)
    reviews.queue(
        connection, people[0], [seeded.evaluations[name] for name in ("passed", "hack", "gpu")]
    )
    trajectory_id = seeded.trajectories[0]
    remarks.add_comment(
        connection,
        people[0],
        AnnotationTarget.TRAJECTORY,
        trajectory_id,
        "The **mask** is off by one.",
    )
    remarks.add_tag(connection, people[0], AnnotationTarget.TRAJECTORY, trajectory_id, "mask-bug")


def _paths(connection: sa.Connection, seeded: Seeded) -> dict[str, tuple[str, ...]]:
    def ids(column: sa.Column[UUID]) -> list[UUID]:
        return list(connection.scalars(sa.select(column).order_by(column)))

    [run_id] = connection.scalars(
        sa.select(tables.runs.c.run_id).where(tables.runs.c.name == "rl-step-120")
    )
    other_runs = [each for each in ids(tables.runs.c.run_id) if each != run_id]
    one, two = ids(tables.exports.c.export_id)[:2]
    evaluations, trajectory = seeded.evaluations, f"/trajectories/{seeded.trajectories[0]}"
    return FIXED | {
        "collecting.attempt": tuple(
            f"/attempts/{each}" for each in ids(tables.nodes.c.node_id)[:1]
        ),
        "collecting.page": tuple(
            f"/collections/{each}" for each in ids(tables.collections.c.collection_id)
        ),
        "collecting.rollout": tuple(
            f"/rollouts/{each}" for each in ids(tables.collection_rollouts.c.rollout_id)[:1]
        ),
        "dataset_rows.index": (
            f"/exports/{one}/rows",
            f"/exports/{one}/rows?sort=-speedup&column=status&value=passed",
        ),
        "dataset_rows.page": (f"/exports/{one}/rows/0",),
        "compare.page": (f"/compare?a={evaluations['suspect']}&b={evaluations['passed']}",),
        "evaluations.kernel_code_page": (f"/evaluations/{evaluations['passed']}/code",),
        "evaluations.page": tuple(
            f"/evaluations/{evaluations[kind]}"
            for kind in ("passed", "hack", "hostile", "cases", "compile_error")
        ),
        "evaluations.timeline_page": (f"/evaluations/{evaluations['passed']}/timeline",),
        "exports.diff": (f"/exports/{one}/diff?against={two}",),
        "exports.job": tuple(
            f"/exports/jobs/{each}" for each in ids(tables.export_jobs.c.export_job_id)
        ),
        "exports.page": (f"/exports/{one}",),
        "jobs.page": tuple(f"/jobs/{seeded.jobs[kind]}" for kind in ("failed", "queued", "passed")),
        "problems.page": (f"/problems/{seeded.problems[0]}",),
        "review.item": (f"/review/{evaluations['hack']}",),
        "run_rewards.page": (f"/runs/{run_id}/rewards",),
        "runs.all_problems": (f"/runs/{run_id}/problems",),
        "runs.compare": ("/runs/compare", f"/runs/compare?run={run_id}&run={other_runs[0]}"),
        "runs.page": (f"/runs/{run_id}",),
        "trajectories.page": (
            *(f"{trajectory}?turn=3&tab={tab}" for tab in TABS),
            f"{trajectory}?turn=3&tab=diff&view=split",
            f"/trajectories/{seeded.trajectories[1]}?turn=2&tab=verdict",
        ),
        "trajectories.whole_conversation": (f"{trajectory}/conversation",),
    }
