"""Pages over data at the edges: nothing in it, no numbers, names of 500 characters,
thousands of turns.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from uuid import UUID

import pytest
import sqlalchemy as sa
from playwright.sync_api import Browser

from app.domain import ids
from app.domain.evaluation import Status
from app.domain.output_checks import Correctness
from app.embedded import Services
from app.settings import Settings
from app.store import tables
from app.store.postgres.database import Database
from tests.conftest import fresh
from tests.integration.browser_site import serving
from tests.integration.seed_evaluations import CLEAN, failed, output_check, passed
from tests.integration.web_app import opened
from tests.integration.web_seeder import Seeder

LONG = "a_name_of_500_characters_without_a_blank_" * 12 + "12345678"
TURNS = 1_000
TABS = (
    "prompt",
    "response",
    "code",
    "diff",
    "compile",
    "correctness",
    "timing",
    "profile",
    "verdict",
    "ir",
    "raw",
)
SOURCES = (
    r'<table role="presentation".*?</table>|<(script|pre|code|details|textarea)\b.*?</\1>|<[^>]+>'
)
"""Sources, raw values and markup: the rest are words of pages."""
IN_BROWSER = ("turn=1&tab=timing", "turn=1&tab=raw", f"turn={TURNS - 1}&tab=prompt")
"""Pages of the long trajectory that a browser lays out: each has all turns beside it."""
WIDTHS = (390, 768, 1440)


@dataclass
class Odd:
    settings: Settings
    paths: list[str]


def _evaluations(seeder: Seeder, problem_id: UUID) -> list[UUID]:
    """Outputs without elements, no verified call, errors that are no numbers, a speedup of 10^300.

    A speedup that is no number cannot be stored (app/store/evaluation/evaluation_json.py)."""
    usual = passed(seeder.rng)
    assert usual.timing is not None
    empty = replace(
        output_check(seeder.rng),
        shape=(0,),
        rel_l2=None,
        max_norm=None,
        rel_l2_limit=0.0,
        max_norm_limit=0.0,
    )
    assert usual.correctness is not None
    trial = replace(usual.correctness.trials[0], outputs=(empty,))
    without = replace(usual.correctness.trials[0], outputs=())
    none = Correctness(calls=0, failed_calls=0, trials=(), mode="train")
    nan = replace(
        output_check(seeder.rng, ok=False), rel_l2=math.nan, max_norm=math.inf, worst=None
    )
    wrong = replace(trial, ok=False, outputs=(nan,))
    found = [
        replace(
            usual,
            correctness=replace(usual.correctness, calls=1, trials=(trial, without)),
            timing=None,
        ),
        replace(usual, correctness=none, timing=None, profile=None),
        replace(usual, correctness=replace(usual.correctness, trials=(wrong,)), timing=None),
        replace(usual, timing=replace(usual.timing, speedup=1e300, ci_low=1e-300, ci_high=1e300)),
        replace(usual, timing=replace(usual.timing, blocks=(), groups=0, calls_per_side=0)),
        replace(failed(seeder.rng, Status.RUNTIME_ERROR), stage_ms={"total": 0.0}),
    ]
    assert usual.profile is not None
    found.append(replace(usual, profile=replace(usual.profile, kernels=(), bytes_moved=0, flops=0)))
    return [seeder.evaluation(seeder.job(problem_id, b"\n"), each, CLEAN) for each in found]


def _long_trajectory(seeder: Seeder, problem_id: UUID, run_id: UUID) -> UUID:
    trajectory_id = seeder.trajectory(problem_id, run_id, LONG, [1.2, 1e300, Status.TIMEOUT])
    turns = [
        {
            "turn_id": ids.new_id(),
            "trajectory_id": trajectory_id,
            "turn_index": index,
            "messages_json": json.dumps([{"role": "user", "content": f"{LONG} {index}"}]),
            "response": b"",
            "job_id": None,
        }
        for index in range(3, TURNS)
    ]
    seeder.connection.execute(sa.insert(tables.turns), turns)
    return trajectory_id


def _seed(connection: sa.Connection) -> list[str]:
    seeder = Seeder(connection)
    problem_id, lonely = seeder.problem(LONG, None, "x"), seeder.problem("never evaluated", 1, "x")
    run_id, bare = ids.new_id(), ids.new_id()
    for each, name in ((run_id, LONG), (bare, "a run without evaluations")):
        settings = {"training": LONG, LONG[:60]: LONG}
        seeder.insert(tables.runs, run_id=each, name=name, model=LONG, settings=settings, step=7)
    found = _evaluations(seeder, problem_id)
    trajectory = f"/trajectories/{_long_trajectory(seeder, problem_id, run_id)}"
    empty = seeder.trajectory(lonely, bare, "", [])
    job = seeder.job(
        problem_id, b"", state="failed", run_id=run_id, error_kind=LONG, error_message=LONG
    )
    return [
        *(
            "/",
            "/runs",
            "/problems",
            "/trajectories",
            "/candidates",
            "/jobs",
            "/review",
            "/hacks",
            "/leaderboard",
        ),
        "/problems/levels",
        *(
            f"/runs/{each}{page}"
            for each in (run_id, bare)
            for page in ("", "/rewards", "/problems")
        ),
        f"/runs/compare?run={run_id}&run={bare}",
        f"/problems/{problem_id}",
        f"/problems/{lonely}",
        *(f"/evaluations/{each}" for each in found),
        f"/compare?a={found[0]}&b={found[2]}",
        f"/compare?a={found[2]}&b={found[3]}",
        *(f"/review/{each}" for each in found[:4]),
        f"{trajectory}/conversation",
        *(f"{trajectory}?turn=0&tab={tab}" for tab in TABS),
        *(f"{trajectory}?{tab}" for tab in IN_BROWSER),
        f"/trajectories/{empty}",
        f"/trajectories/{empty}/conversation",
        f"/jobs/{job}",
        f"/search?q={LONG[:200]}",
        f"/candidates?problem={LONG[:200]}&columns=problem&columns=run&columns=speedup",
        "/exports/new?count=yes",
    ]


@contextmanager
def _made(services: Services) -> Iterator[Odd]:
    with fresh(services) as settings:
        database = Database(settings.database_url or "")
        with database.begin() as connection:
            paths = _seed(connection)
        database.dispose()
        yield Odd(settings=settings, paths=paths)


@pytest.fixture(scope="module")
def odd(services: Services) -> Iterator[Odd]:
    with _made(services) as made:
        yield made


def test_an_evaluation_that_cannot_be_judged_is_named(odd: Odd) -> None:
    with opened(odd.settings, testing=True) as app:
        site = app.test_client()
        shown = site.get("/hacks/changes")
        assert shown.status_code == 200
        assert "1 evaluation cannot be judged" in re.sub(r"\s+", " ", shown.text)
        failed = [row for row in site.get("/hacks/changes.json").json["changes"] if row["error"]]
        assert [(row["before"], row["after"]) for row in failed] == [("clean", "")]
        evaluation = f"/evaluations/{failed[0]['evaluation_id']}"
        refused = site.post(f"{evaluation}/rejudge", headers={"Sec-Fetch-Site": "same-origin"})
        assert refused.status_code == 409
        assert "Its stored verdict stays" in refused.text


@pytest.mark.timeout(300)
def test_every_page_answers(odd: Odd) -> None:
    with opened(odd.settings, testing=True) as app:
        site = app.test_client()
        said = []
        for path in odd.paths:
            answer = site.get(path)
            assert answer.status_code == 200, path
            shown = re.sub(SOURCES, " ", answer.text, flags=re.S)
            said += [
                f"{path}: …{each}…"
                for each in re.findall(r".{0,40}\b(?:nan|inf|NaN|None)\b.{0,20}", shown)
            ]
        assert not said, "\n".join(said)


@pytest.mark.timeout(300)
def test_no_page_scrolls_sideways(odd: Odd, browser: Browser) -> None:
    with serving(odd.settings) as url:
        page = browser.new_page()
        wide = []
        paths = [path for path in odd.paths if "&tab=" not in path or path.endswith(IN_BROWSER)]
        for path in paths:
            page.set_viewport_size({"width": WIDTHS[0], "height": 900})
            page.goto(url + path)
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 900})
                while page.evaluate("innerWidth") != width:
                    page.wait_for_timeout(20)
                if (found := page.evaluate("document.documentElement.scrollWidth")) > width:
                    wide.append(f"{path} is {found} px wide at {width}")
        page.close()
        assert not wide, "\n".join(wide)
