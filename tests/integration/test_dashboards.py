"""Overview, runs, problems, hacks, datasets and administration: their figures, as pages, as data,
live, and in a browser from a filter to a downloaded dataset.
"""

from __future__ import annotations

import csv
import io
from uuid import uuid4

import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient

from app.settings import Settings
from app.store import tables
from app.store.postgres.database import Database
from app.web import create_app, run_metrics
from app.web.charts import line_plot, stacked_bars
from app.web.pages import admin as admin_page
from tests.integration.page_text import page as text
from tests.integration.page_text import raw
from tests.integration.web_seed import History
from tests.integration.web_seeder import Seeder


def run_id(pages: FlaskClient) -> str:
    return str(pages.get("/runs.json").get_json()["runs"][0]["run_id"])


TABLES = (
    "/runs",
    "/problems",
    "/problems/levels",
    "/hacks",
    "/hacks/stale_result/examples",
    "/hacks/changes",
    "/exports",
    "/overview/queues",
    "/overview/devices",
    "/overview/stages",
    "/overview/hours",
    "/admin/storage",
    "/admin/tables/evaluations",
)


@pytest.mark.parametrize("path", TABLES)
def test_every_table_is_json_and_csv_with_the_same_rows(pages: FlaskClient, path: str) -> None:
    body = pages.get(f"{path}.json")
    assert body.status_code == 200, body.text
    (listed,) = body.get_json().values()
    answer = pages.get(f"{path}.csv")
    assert answer.mimetype == "text/csv"
    assert "attachment" in answer.headers["Content-Disposition"]
    rows = list(csv.reader(io.StringIO(answer.text)))
    assert len(rows) == (len(listed) + 1 if listed else 0)
    if listed:
        assert rows[0] == list(listed[0])


def test_a_cell_is_no_formula(pages: FlaskClient, history: History) -> None:
    database = Database(history.settings.database_url or "")
    with database.begin() as connection:
        name = "=HYPERLINK(1)"
        connection.execute(
            sa.insert(tables.runs).values(run_id=uuid4(), name=name, model="@SUM", settings={})
        )
    assert "'=HYPERLINK(1)" in pages.get("/runs.csv?name=HYPERLINK").text
    with database.begin() as connection:
        connection.execute(sa.delete(tables.runs).where(tables.runs.c.name == name))
    database.dispose()


def test_a_run_counts_hacks_as_wrong_and_names_what_it_divides_by(pages: FlaskClient) -> None:
    found = pages.get(f"/runs/{run_id(pages)}.json").get_json()
    assert found["operator"] == ">"
    every, last, best = found["fast_p"]
    # turns: compile error, incorrect, 1.12, 1.47; and 0.92, 1.02, a hack at 41
    assert [(one["p"], one["count"], one["of"]) for one in every["thresholds"]] == [
        (0.0, 4, 7),
        (1.0, 3, 7),
        (1.2, 1, 7),
        (1.5, 0, 7),
        (2.0, 0, 7),
    ]
    assert (last["denominator"], last["thresholds"][0]["count"]) == (2, 1)
    assert (best["denominator"], best["thresholds"][1]["count"]) == (2, 2)
    assert found["hack_rate"]["of_attempts"]["count"] == 1
    assert found["geometric_mean"]["n"] == 4
    assert found["geometric_mean"]["value"] == pytest.approx((1.12 * 1.47 * 0.92 * 1.02) ** 0.25)


def test_the_list_and_the_page_of_a_run_agree(pages: FlaskClient) -> None:
    line = next(
        row for row in pages.get("/runs.json").get_json()["runs"] if row["name"] == "rl-step-120"
    )
    found = pages.get(f"/runs/{line['run_id']}.json").get_json()
    assert [
        line["correct"],
        line["faster_than_1"],
        line["faster_than_1_2"],
        line["faster_than_1_5"],
    ] == [one["count"] for one in found["fast_p"][0]["thresholds"][:4]]
    assert line["geometric_mean"] == pytest.approx(found["geometric_mean"]["value"])
    shown = text(pages, f"/runs/{line['run_id']}")
    assert "95 % CI" in shown
    assert "4 of 7" in shown


def test_correct_and_the_hack_rate_are_the_same_on_every_page(pages: FlaskClient) -> None:
    name = "rl-step-120"
    line = next(row for row in pages.get("/runs.json").get_json()["runs"] if row["name"] == name)
    found = pages.get(f"/runs/{line['run_id']}.json").get_json()
    correct, hacks = found["fast_p"][0]["thresholds"][0]["count"], found["hack_rate"]["of_attempts"]
    assert (line["correct"], line["hacks"], line["attempts"]) == (
        correct,
        hacks["count"],
        hacks["of"],
    )
    listed = pages.get(f"/trajectories.json?run={name}").get_json()["trajectories"]
    assert (sum(one["correct"] for one in listed), sum(one["hacks"] for one in listed)) == (
        correct,
        hacks["count"],
    )
    assert hacks["count"] == 1, "a hack that passed every call is in the run"
    filtered = pages.get(f"/candidates.json?where=run = {name} and correct").get_json()[
        "candidates"
    ]
    assert [row["verdict"] for row in filtered if row["verdict"] == "hack"] == []
    cheats = pages.get(
        f"/candidates.json?where=run = {name} and verdict = hack and status = passed"
    ).get_json()
    assert [row["correct"] for row in cheats["candidates"]] == [False]
    opposite = pages.get(f"/candidates.json?where=run = {name} and not correct").get_json()[
        "candidates"
    ]
    assert {row["evaluation_id"] for row in cheats["candidates"]} <= {
        row["evaluation_id"] for row in opposite
    }


def test_runs_beside_each_other(pages: FlaskClient) -> None:
    one = run_id(pages)
    shown = text(pages, f"/runs/compare?run={one}&run={one}")
    assert "Correct, every attempt" in shown
    assert pages.get(f"/runs/compare?run={one}&run=nothing").status_code == 400
    assert pages.get(f"/runs/compare?run={uuid4()}").status_code == 404
    assert "Choose two runs" in text(pages, "/runs/compare")


def test_problems_say_why_they_are_hard(pages: FlaskClient, history: History) -> None:
    shown = text(pages, f"/problems/{history.seeded.problems[0]}")
    for expected in (
        "How attempts end",
        "compile error",
        "Best honest candidates",
        "eager",
        "Roofline",
    ):
        assert expected in shown
    assert "kernel-coder-14b" in text(pages, "/problems/levels")
    assert pages.get("/problems/levels?measure=beauty").status_code == 400
    assert pages.get("/problems?level=two").status_code == 400


def test_hacks_have_examples_and_what_judging_anew_would_say(
    pages: FlaskClient, history: History
) -> None:
    shown = text(pages, "/hacks/stale_output")
    assert "An answer that was not computed in the call" in shown
    gone = text(pages, "/hacks/stale_result")  # the seed's detector is unknown
    assert "call 3 returned the answer of call 1" in gone
    assert "Not installed" in gone
    assert pages.get("/hacks/beauty").status_code == 404
    assert "verdicts would change" in text(pages, "/hacks/changes?policy=triton-only")
    assert pages.get("/hacks/changes?sample=5").status_code == 400
    cleared = [
        line
        for line in pages.get("/hacks/changes.json").json["changes"]
        if line["after"] == "clean"
    ]
    assert cleared
    assert all(line["gone"] for line in cleared), "the finding that has vanished is named"


def test_administration_hides_what_is_secret(pages: FlaskClient, history: History) -> None:
    password = sa.make_url(history.settings.database_url or "").password or "?"
    shown = raw(pages, "/admin/configuration")
    assert "ASSAY_DATABASE_URL" in shown
    assert password not in shown
    assert "password_hash" not in raw(pages, "/admin/tables/users")
    assert "token_hash" not in raw(pages, "/admin/tables/api_tokens")
    assert pages.get("/admin/tables/sessions").status_code == 404
    assert pages.get("/admin/tables/evaluations?before=x").status_code == 400


def test_settings_that_sound_secret_are_not_printed() -> None:
    assert admin_page._without_secret("oidc_secret", "hunter2") == "set, not shown"
    assert (
        admin_page._without_secret("broker_url", "redis://u:p@host:6379/0") == "redis://***@host/0"
    )
    assert admin_page._without_secret("slots", 3) == "3"


def test_raw_tables_are_walked_by_key(pages: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    path: str | None = "/admin/tables/evaluations.json"
    first = pages.get("/admin/tables/evaluations")
    assert 'rel="next"' in first.text
    while path:
        rows = pages.get(path).get_json()["evaluations"]
        seen += [row["evaluation_id"] for row in rows]
        path = (
            f"/admin/tables/evaluations.json?before={rows[-1]['evaluation_id']}"
            if len(rows) == 50
            else None
        )
    assert len(seen) == len(set(seen)) > 50


def test_a_selection_is_counted_and_what_is_wrong_with_it_said(pages: FlaskClient) -> None:
    shown = text(pages, "/exports/new?where=level+%3D+1&count=yes")
    assert "attempts of every evaluation" in shown
    assert "every verified call was right" in shown
    assert "expected" in text(pages, "/exports/new?where=level+%3D", 400)
    assert "min_speedup" in text(pages, "/exports/new?min_speedup=fast", 400)
    assert "unknown" in text(pages, "/exports/new?format=papyrus", 400)


@pytest.mark.parametrize("path", ["/exports/new?preview=yes", "/exports/funnel/whole"])
def test_what_takes_its_time_shows_progress_first(pages: FlaskClient, path: str) -> None:
    answer = pages.get(path)
    assert answer.status_code == 200
    shown = answer.text
    assert "answered" in shown
    assert shown.index('class="step"') < shown.index("answered")
    assert "ended with" not in shown


def test_devices_are_changed_with_a_reason_that_stays(settings: Settings) -> None:
    app = create_app(settings)
    app.testing = True
    database = Database(settings.database_url or "")
    with database.begin() as connection:
        Seeder(connection).device("bench-01", "cpu", 0)
    pages = app.test_client()
    token = raw(pages, "/admin").split('name="csrf_token" value="')[1].split('"')[0]
    form = {"csrf_token": token, "action": "drain"}
    headers = {"Origin": "http://localhost"}
    assert (
        pages.post("/admin/devices/bench-01.0", data=form, headers=headers).status_code == 400
    )  # no reason
    done = pages.post(
        "/admin/devices/bench-01.0", data=form | {"reason": "new driver"}, headers=headers
    )
    assert done.status_code == 302, done.text
    assert "new driver" in text(pages, "/admin")
    assert "draining" in text(pages, "/")
    with database.begin() as connection:
        actions = list(connection.scalars(sa.select(tables.audit_events.c.action)))
    assert actions == ["device.drain"]
    database.dispose()
    app.extensions["assay"]["database"].dispose()


def test_pages_of_an_empty_database_say_what_to_do(settings: Settings) -> None:
    app = create_app(settings)
    app.testing = True
    pages = app.test_client()
    for path, expected in (
        ("/", "Nothing has been evaluated yet"),
        ("/runs", "No runs yet"),
        ("/problems", "No problems yet"),
        ("/problems/levels", "No run names its model yet"),
        ("/hacks", "No detector has found anything"),
        ("/exports", "No datasets yet"),
        ("/exports/new?count=yes", "attempts of every evaluation"),
        ("/admin", "No worker has reported a device"),
    ):
        assert expected in text(pages, path), path
    app.extensions["assay"]["database"].dispose()


def test_figures_of_nothing_are_nothing() -> None:
    figures = run_metrics.compute([], {})
    assert figures.lines[0].of == 0
    assert figures.geometric_interval is None
    assert (
        line_plot.lines([line_plot.Series(name="x", points=[])], x_label="x", y_label="y") is None
    )
    assert stacked_bars.plot([("a", {})], ["b"], x_label="x", words=str) is None
