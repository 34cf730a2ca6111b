"""Pages, their JSON and CSV, the command line, `/v1`, Prometheus and exports count the same rows of
one database with every kind of outcome, the same way.
"""

from __future__ import annotations

import csv
import io
import json
import re

import pytest
from flask.testing import FlaskClient

from tests.integration.cli import assay
from tests.integration.page_text import text_of
from tests.integration.web_seed import History

RUN = "rl-step-120"
WITHOUT_CODE = 1
"""Answers without code of the database."""
ROW = r'<th scope="row"[^>]*>\s*<a[^>]* href="/evaluations/([0-9a-f-]+)"'
"""Head of a row of the list."""
FILTERS = (
    "",
    "correct",
    "not correct",
    "status = passed",
    "status = passed and not correct",
    "verdict = hack",
    "verdict = suspect",
    "not valid",
    "speedup > 1.2",
    "measured_speedup > 10",
    "gpu = h200",
    "run = rl-step-120",
    "run = rl-step-120 and correct",
    "run = rl-step-120 and verdict = hack",
    "model ~ coder and turn > 1",
    "finding = stale_output or finding ~ light",
    "problem ~ soft and level = 1 and not (status in (timeout, crashed))",
    "verdict = hack and speedup > 1",
    "level = 9",
)


@pytest.mark.parametrize("where", FILTERS)
def test_a_filter_finds_the_same_evaluations_everywhere(
    pages: FlaskClient, history: History, where: str
) -> None:
    def of_page(path: str, **arguments: str) -> str:
        return pages.get(path, query_string={"where": where} | arguments).text

    rows = json.loads(of_page("/candidates.json"))["candidates"]
    found = [row["evaluation_id"] for row in rows]
    assert [
        row["evaluation_id"] for row in csv.DictReader(io.StringIO(of_page("/candidates.csv")))
    ] == found
    shown = of_page("/candidates")
    assert re.findall(ROW, shown) == found[:50]
    [said] = re.findall(r"(\d+) rows? in all", shown) if found else ["0"]
    assert int(said) == len(found)
    fastest = json.loads(of_page("/candidates.json", sort="-speedup"))["candidates"]
    assert {row["evaluation_id"] for row in fastest} == {
        row["evaluation_id"] for row in rows if row["measured_speedup"] is not None
    }
    quick = text_of(of_page("/exports/funnel"))
    assert re.search(rf"where {len(found)} ", quick), quick
    told = assay(
        history.settings, "export", "--format", "rewards", "--where", where, "--dry-run", "--json"
    )
    [kept] = [
        stage["rows"] for stage in json.loads(told.stdout)["stages"] if stage["stage"] == "where"
    ]
    assert kept - len(found) in (0, WITHOUT_CODE), "answers without code have no evaluation"


def test_the_figures_of_a_run_are_the_same_everywhere(pages: FlaskClient, history: History) -> None:
    line = next(row for row in pages.get("/runs.json").get_json()["runs"] if row["name"] == RUN)
    expected = {"attempts": line["attempts"], "correct": line["correct"], "hacks": line["hacks"]}
    assert expected == {"attempts": 7, "correct": 4, "hacks": 1}
    [of_csv] = [
        row
        for row in csv.DictReader(io.StringIO(pages.get("/runs.csv").text))
        if row["name"] == RUN
    ]
    page = pages.get(f"/runs/{line['run_id']}.json").get_json()
    of_api = pages.get(f"/v1/runs/{RUN}").get_json()["figures"]
    rates = page["hack_rate"]["of_attempts"]
    [model] = [
        row
        for row in pages.get("/leaderboard.json").get_json()["models"]
        if row["model"] == line["model"]
    ]
    problems = pages.get(f"/runs/{line['run_id']}/problems.json").get_json()["problems"]
    listed = pages.get(f"/trajectories.json?run_id={line['run_id']}").get_json()["trajectories"]
    [told] = json.loads(assay(history.settings, "report", RUN, "--by", "run", "--json").stdout)
    found = {
        "CSV of the list": {name: int(of_csv[name]) for name in expected},
        "page": {
            "attempts": rates["of"],
            "correct": page["fast_p"][0]["thresholds"][0]["count"],
            "hacks": rates["count"],
        },
        "/v1": {name: of_api[name] for name in expected},
        "leaderboard": {name: model[name] for name in expected},
        "problems": {name: sum(row[name] for row in problems) for name in expected},
        "trajectories": {
            "attempts": sum(row["turns"] for row in listed),
            "correct": sum(row["correct"] for row in listed),
            "hacks": sum(row["hacks"] for row in listed),
        },
        "assay report": {
            "attempts": told["fast_p"]["0"]["of"],
            "correct": told["fast_p"]["0"]["count"],
            "hacks": told["hack_rate"]["of_attempts"]["count"],
        },
    }
    assert found == dict.fromkeys(found, expected)
    [ratio] = re.findall(rf'assay_run_hack_ratio{{run="{RUN}"}} (\S+)', pages.get("/metrics").text)
    assert float(ratio) == pytest.approx(of_api["hack_ratio"])
    assert of_api["mean_speedup"] == pytest.approx(line["geometric_mean"])
    assert page["geometric_mean"]["value"] == pytest.approx(line["geometric_mean"])


def test_the_mean_reward_of_a_run_counts_answers_without_code_everywhere(
    pages: FlaskClient,
) -> None:
    runs = pages.get("/runs.json").get_json()["runs"]
    rewarded = [run for run in runs if run["reward"] is not None]
    assert rewarded
    for run in rewarded:
        of_api = pages.get(f"/v1/runs/{run['run_id']}").get_json()["figures"]["rewards"]
        page = pages.get(f"/runs/{run['run_id']}/rewards.json").get_json()
        assert of_api[page["reward"]] == pytest.approx(run["reward"]), run["name"]
        assert page["turn"]["value"] == pytest.approx(run["reward"]), run["name"]
