"""Pages of an evaluation, a job and a turn: their text and their downloads."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient

from app.domain import result
from app.domain.source import source_text
from app.store import tables
from app.store.postgres.database import Database
from tests.integration.page_text import page, raw, text_of
from tests.integration.seed_environments import HOSTILE
from tests.integration.web_seed import History


def test_an_evaluation_in_full(pages: FlaskClient, history: History) -> None:
    shown = page(pages, f"/evaluations/{history.seeded.evaluations['passed']}")
    for expected in (
        "1.31×",
        "95 % CI 1.29–1.33×, 12 groups",
        "412 calls verified against the reference (fp64) in train mode, 0 wrong",
        "softmax_kernel",
        "95.3 %",
        "seccomp filter: missing, this host does not allow it",
        "LLVM ERROR: unsupported",
        "autotuning: BLOCK=1024",
        "No detector found anything.",
        "precise after 12 groups",
        "AMD EPYC 9V74",
        "compile 731 ms",
        "which the problem leaves all equal, a new model answered right.",
        "Over compile 1.08× (95 % CI 1.05–1.11×; that takes 1.52 ms)",
        "Over compile-max-autotune – not measured: timeout: no answer in time (120 s a call",
    ):
        assert expected in shown


def test_two_candidates_of_a_problem_have_other_headings(
    pages: FlaskClient, history: History
) -> None:
    titles = set()
    for name in ("passed", "hack"):
        evaluation_id = history.seeded.evaluations[name]
        markup = raw(pages, f"/evaluations/{evaluation_id}")
        [heading] = re.findall(r"<h1>(.*?)</h1>", markup, re.S)
        assert str(evaluation_id)[-8:] in heading
        titles.add(re.findall(r"<title>(.*?)</title>", markup)[0])
    assert len(titles) == 2


def test_the_device_time_is_shown_or_why_there_is_none(
    pages: FlaskClient, history: History
) -> None:
    ids = history.seeded.evaluations
    shown, markup = (read(pages, f"/evaluations/{ids['gpu']}") for read in (page, raw))
    assert re.search(
        r"Device-time speedup \d+\.\d+× \(95 % CI [\d.–]+×; [\d.]+ µs and [\d.]+ µs per call, from",
        shown,
    )
    assert '<dt title="Speedup without the host&#39;s launching' in markup
    missing, markup = (read(pages, f"/evaluations/{ids['passed']}") for read in (page, raw))
    assert "Device-time speedup – not measured: CUDA graphs need a GPU" in missing
    assert "<b>this</b>" not in markup
    assert "Device-time speedup" not in page(pages, f"/evaluations/{ids['incorrect']}")


def test_a_hack_shows_its_evidence_and_no_credit(pages: FlaskClient, history: History) -> None:
    shown = page(pages, f"/evaluations/{history.seeded.evaluations['hack']}")
    assert "Call 3 returned the answer of call 1, although its inputs were new." in shown
    assert "_CACHE.get(x.data_ptr())" in shown
    assert "the answer of call 1; written after it was done; inputs changed: 0" in shown
    assert "not credited" in shown


@pytest.mark.parametrize(
    "status", ["incorrect", "compile_error", "runtime_error", "timeout", "out_of_memory", "crashed"]
)
def test_failures_say_why(pages: FlaskClient, history: History, status: str) -> None:
    shown = page(pages, f"/evaluations/{history.seeded.evaluations[status]}")
    assert status.replace("_", " ") in shown
    assert "Reason of failure" in shown


def test_how_libraries_computed_is_told_where_it_is_known(
    pages: FlaskClient, history: History
) -> None:
    found = {
        name: page(pages, f"/evaluations/{history.seeded.evaluations[name]}")
        for name in ("gpu", "passed")
    }
    assert "fp32 in libraries matmul fp32, convolution TF32, rnn TF32" in found["gpu"]
    assert "fp32 in libraries" not in found["passed"]


def test_cases_stand_in_a_table_of_their_own(pages: FlaskClient, history: History) -> None:
    path = f"/evaluations/{history.seeded.evaluations['cases']}"
    markup = raw(pages, path)
    shown = text_of(markup)
    assert '<a href="#cases">Cases</a>' in markup
    assert '<a href="#timing">' not in markup
    assert "2 of 5 passed; 1 not tried: after crashed, nothing more can be said." in shown
    assert "cases have no reference to be faster than" in shown
    assert (
        "small, 16 × 16 passed 42 rtol=0.01,atol=0.001 12.5 µs 95 % CI 12.2 µs–12.9 µs –" in shown
    )
    assert "negative incorrect 42 2 wrong fp64 – output 0: relative error 0.41" in shown
    assert "412 calls verified against the answers of the cases, 2 wrong." in shown
    assert "<b>in 2 calls</b>" not in markup
    assert "own negative wrong 0 float32" in shown
    assert 'title="case small, 16 × 16, call 3, seed ' in markup
    assert "12.5 µs per call in small, 16 × 16, the first of 5 cases" in page(
        pages,
        f"/compare?a={history.seeded.evaluations['right_cases']}&b={history.seeded.evaluations['passed']}",
    )
    rows = pages.get(f"{path}/cases.csv").text.splitlines()
    assert (len(rows), rows[0].split(",")[:4]) == (5, ["index", "of", "name", "status"])
    assert 'href="#cases"' not in raw(pages, f"/evaluations/{history.seeded.evaluations['passed']}")


def test_an_invalid_evaluation_is_not_scored(pages: FlaskClient, history: History) -> None:
    assert "so the candidate is not scored" in page(
        pages, f"/evaluations/{history.seeded.evaluations['invalid']}"
    )


def test_json_has_the_shape_that_everybody_reads(pages: FlaskClient, history: History) -> None:
    job_id = history.seeded.jobs["hack"]
    answer = pages.get(f"/evaluations/{history.seeded.evaluations['hack']}.json").get_json()
    assert tuple(answer) == result.KEYS
    assert answer["speedup"] is None
    assert answer["verdict"] == "hack"
    assert answer["timings_ms"]["queue"] == 812.0
    assert answer["job_id"] == str(job_id)
    evaluation_id = history.seeded.evaluations["hack"]
    assert (
        answer["url"] == f"{history.settings.web_url}/evaluations/{evaluation_id}"
    )  # the client says the same


def test_the_timeline_is_a_download(pages: FlaskClient, history: History) -> None:
    response = pages.get(f"/evaluations/{history.seeded.evaluations['passed']}/timeline.json")
    assert json.loads(response.data)["traceEvents"][0]["name"] == "softmax_kernel"
    assert "attachment" in response.headers["Content-Disposition"]
    assert (
        pages.get(f"/evaluations/{history.seeded.evaluations['hack']}/timeline.json").status_code
        == 404
    )


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("queued", "Queued in cpu"),
        ("running", "worker@bench-01 lease until"),
        ("failed", "the referee died of signal 9 three times"),
        ("cancelled", "requested"),
        ("passed", "Open evaluation"),
    ],
)
def test_a_job_in_every_state(
    pages: FlaskClient, history: History, state: str, expected: str
) -> None:
    assert expected in page(pages, f"/jobs/{history.seeded.jobs[state]}")


def test_a_job_that_was_cut_short_says_when_it_runs_again(
    empty_pages: FlaskClient, database: Database
) -> None:
    job_id = empty_pages.post("/v1/evaluations", json={"reference": "r", "candidate": "c"}).json[
        "job_id"
    ]
    assert "Runs again" not in page(empty_pages, f"/jobs/{job_id}")
    with database.begin() as connection:
        values = {
            "attempt": 2,
            "interruptions": 2,
            "not_before": datetime(2030, 1, 2, 3, 4, tzinfo=UTC),
        }
        connection.execute(
            sa.update(tables.jobs).where(tables.jobs.c.job_id == job_id).values(values)
        )
    shown = page(empty_pages, f"/jobs/{job_id}")
    assert "2 (2 cut short by the end of one of Assay's processes, counted apart)" in shown
    assert "not before 2030-01-02 03:04" in shown


BADGE = re.compile(r'class="badge [a-z]*(?: large)?"><svg[^>]*>.*?</svg>([a-z ]+)</span>')


def test_a_finding_that_weighs_nothing_is_information(pages: FlaskClient, history: History) -> None:
    shown = BADGE.findall(raw(pages, f"/evaluations/{history.seeded.evaluations['hack']}"))
    assert {"info", "hack"} <= set(shown)
    assert "clean" not in shown
    assert "info" in BADGE.findall(raw(pages, f"/review/{history.seeded.evaluations['hack']}"))


@pytest.mark.parametrize("status", ["compile_error", "incorrect", "timeout", "crashed"])
def test_what_did_not_pass_shows_no_clean_verdict(
    pages: FlaskClient, history: History, status: str
) -> None:
    for path in (
        f"/evaluations/{history.seeded.evaluations[status]}",
        f"/candidates?status={status}",
    ):
        shown = BADGE.findall(raw(pages, path))
        assert status.replace("_", " ") in shown, path
        assert "clean" not in shown, path
    assert "clean" in BADGE.findall(
        raw(pages, f"/evaluations/{history.seeded.evaluations['passed']}")
    )


def test_a_turn_stands_beside_what_it_changed(pages: FlaskClient, history: History) -> None:
    shown = page(pages, f"/trajectories/{history.seeded.trajectories[0]}?turn=2&tab=diff")
    places = [shown.index(f" Turn {turn} ", shown.index("to the content")) for turn in range(4)]
    assert places == sorted(places)
    assert "Turn 1 → turn 2: the last turn before it that has code." in shown
    assert re.search(r"\+ softmax_kernel.*BLOCK = 1024", shown)
    assert re.search(r"− softmax_kernel.*BLOCK = 512", shown)
    best = page(
        pages, f"/trajectories/{history.seeded.trajectories[0]}?turn=2&tab=diff&against=best"
    )
    assert "Turn 3 → turn 2: the best of the other turns." in best
    assert re.search(r"Candidate, per call 1.25 ms 1.65 ms 1.31× more", best)
    assert re.search(r"softmax_kernel candidate 40.6 µs 40.6 µs same", best)


@pytest.mark.parametrize(
    ("tab", "expected"),
    [
        ("prompt", "You write Triton kernels."),
        ("response", "Response"),
        ("code", "import triton.language as tl"),
        ("compile", "LLVM ERROR: unsupported"),
        ("correctness", "412 calls verified against the reference (fp64)"),
        ("timing", "1.12× (95 % CI 1.10–1.14×, 12 timing groups"),
        ("profile", "Share of launches in candidate kernels"),
        ("verdict", "No detector found anything."),
        ("raw", '"reference_us"'),
    ],
)
def test_every_tab_of_a_turn_has_a_url(
    pages: FlaskClient, history: History, tab: str, expected: str
) -> None:
    turn = 0 if tab == "prompt" else 2
    assert expected in page(
        pages, f"/trajectories/{history.seeded.trajectories[0]}?turn={turn}&tab={tab}"
    )


def test_a_turn_without_code_says_so(pages: FlaskClient, history: History) -> None:
    path = f"/trajectories/{history.seeded.trajectories[2]}"
    assert "No code was found in this answer" in page(pages, f"{path}?turn=1")
    assert "Turn 0 → turn 2" in page(pages, f"{path}?turn=2")  # turn 1 had none


@pytest.mark.parametrize(
    ("arguments", "status", "expected"),
    [
        ("turn=9", 404, "There is no turn 9"),
        ("turn=x", 400, "turn: expected a whole number"),
        ("tab=dif", 400, "tab: expected one of prompt, response"),
        (
            "turn=1&tab=diff&against=1",
            400,
            "against: expected previous, best or another turn with code (0, 2, 3)",
        ),
    ],
)
def test_a_turn_that_is_not_there_is_said(
    pages: FlaskClient, history: History, arguments: str, status: int, expected: str
) -> None:
    assert expected in page(
        pages, f"/trajectories/{history.seeded.trajectories[0]}?{arguments}", status
    )


def test_downloads_are_the_bytes_that_were_submitted(pages: FlaskClient, history: History) -> None:
    response = pages.get(f"/jobs/{history.seeded.jobs['hostile']}/candidate.py")
    assert response.data.startswith(source_text.encode(HOSTILE))
    assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert "attachment" in response.headers["Content-Disposition"]


def test_a_wrong_output_shows_its_worst_element(pages: FlaskClient, history: History) -> None:
    rows = pages.get("/candidates.json?status=incorrect").get_json()["candidates"]
    shown = page(pages, f"/evaluations/{rows[0]['evaluation_id']}")
    assert "[7, 1023] 0.25 nan" in shown
    assert "[7, 1023]" not in page(pages, f"/evaluations/{history.seeded.evaluations['passed']}")
