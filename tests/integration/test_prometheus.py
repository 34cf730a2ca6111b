"""Metrics that Prometheus scrapes: parsed with its own parser, and equal to the events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import flask
import pytest
from celery import Celery
from prometheus_client.parser import text_string_to_metric_families

from app import enqueue
from app.domain.device import DeviceId
from app.domain.evaluation import Canary
from app.domain.job import Limits
from app.domain.trajectory import Run, Turn
from app.settings import Settings
from app.store.evaluation import evaluations
from app.store.figures import run_figures
from app.store.postgres.database import Database
from app.store.queue import devices, leases, scheduling
from app.web import create_app
from tests.integration import fakes
from tests.timings import timing

HERE = DeviceId(device_class="cpu", node="here", index=0)


@pytest.fixture
def app(settings: Settings) -> Iterator[flask.Flask]:
    made = create_app(settings)
    yield made
    made.extensions["assay"]["database"].dispose()


def scraped(app: flask.Flask) -> dict[str, float]:
    """Sample → value, with the labels as Prometheus writes them."""
    answer = app.test_client().get("/metrics")
    assert answer.status_code == 200
    assert answer.content_type.startswith("text/plain; version=")
    samples = {}
    for family in text_string_to_metric_families(answer.text):
        assert family.documentation
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            samples[f"{sample.name}{{{labels}}}"] = sample.value
    return samples


def run_one(database: Database, **outcome: Any) -> None:
    terms = scheduling.ClaimSettings(owner="me", lease_s=60, limits=Limits(attempts=1))
    with database.begin() as connection:
        lease = scheduling.claim(connection, HERE, "cpu", terms).lease
        assert lease is not None
        if not outcome:
            leases.release(connection, lease, Limits(attempts=1), "infrastructure", "fire")
        else:
            evaluations.add(connection, lease, worker="w", **outcome)


def test_the_numbers_are_what_happened(
    database: Database, broker: Celery, app: flask.Flask
) -> None:
    enqueue.enqueue(database, broker, [fakes.request(str(number)) for number in range(5)])
    enqueue.enqueue(database, broker, [fakes.request("urgent", priority="high")])
    with database.begin() as connection:
        devices.register(connection, DeviceId(device_class="cpu", node="here", index=0), worker="w")
        devices.describe(
            connection, DeviceId(device_class="cpu", node="here", index=0), {"slots": 3}
        )
    incorrect = replace(fakes.incorrect(), stage_ms={"total": 100.0, "timing": 3.0})
    run_one(database, evaluation=incorrect, verdict=fakes.clean())
    run_one(database, evaluation=incorrect, verdict=fakes.clean())
    run_one(database, evaluation=with_canary(), verdict=fakes.hack())
    run_one(database)
    with database.begin() as connection:
        devices.quarantine(connection, "here", reason="Xid 79", changed_by="test")

    found = scraped(app)
    assert found["assay_queued_jobs{priority=normal,queue=cpu}"] == 2
    assert 0 < found["assay_queue_age_seconds{priority=normal,queue=cpu}"] < 600
    assert found["assay_evaluations_total{device_class=cpu,status=incorrect}"] == 2
    assert found["assay_evaluations_total{device_class=cpu,status=passed}"] == 1
    assert found["assay_evaluations_total{device_class=cpu,status=timeout}"] == 0
    failed = [
        found[f"assay_failed_jobs{{kind={kind}}}"]
        for kind in ("infrastructure", "attempts_exhausted")
    ]
    assert failed == [1, 0]
    assert found["assay_queued_jobs{priority=low,queue=cpu}"] == 0
    assert any(sample.startswith("assay_build_info{tables=") for sample in found)
    assert found["assay_hack_ratio{}"] == pytest.approx(1 / 3)
    assert found["assay_device_state{device=here.0,device_class=cpu,state=quarantined}"] == 1
    assert found["assay_device_state{device=here.0,device_class=cpu,state=online}"] == 0
    assert found["assay_device_slots{device=here.0,device_class=cpu}"] == 3
    assert (
        found["assay_device_changes_total{device=here.0,device_class=cpu,state=quarantined}"] == 1
    )
    assert found["assay_canary_drift_ratio{device_id=fake-0,node=node}"] == pytest.approx(0.5)
    total = "assay_phase_seconds_bucket{device_class=cpu,le=%s,phase=total}"
    assert [found[total % bound] for bound in ("0.064", "0.256", "+Inf")] == [0, 2, 2]
    assert found["assay_phase_seconds_sum{device_class=cpu,phase=total}"] == pytest.approx(
        0.2, rel=0.1
    )


def test_errors_are_json_in_the_form_of_kernelgym(app: flask.Flask) -> None:
    answer = app.test_client().get("/metrics", headers={"Accept": "application/json"})
    assert "queue_metrics" in answer.get_json()


def with_canary() -> Any:
    canary = Canary(expected_us=100, before_us=101, after_us=150, repeats=0)
    return replace(fakes.passed(), timing=timing(canary=canary))


def test_a_training_run_is_seen_while_it_runs(
    database: Database, broker: Celery, app: flask.Flask
) -> None:
    """Rewards and the share of hacks by run, the same in /metrics and in /v1/runs/{name}."""
    run = Run(name="verl/grpo/step 7")
    for candidate in ("good", "bad", "cheat", "waits"):
        turn = Turn(messages=(), response=candidate, candidate=candidate)
        enqueue.enqueue_trajectory(database, broker, request=fakes.request(), turns=[turn], run=run)
    run_one(database, evaluation=fakes.passed(), verdict=fakes.clean())
    run_one(database, evaluation=fakes.incorrect(), verdict=fakes.clean())
    run_one(database, evaluation=fakes.passed(), verdict=fakes.hack())
    found = scraped(app)
    assert found["assay_run_evaluations{run=verl/grpo/step 7}"] == 3
    assert found["assay_run_hack_ratio{run=verl/grpo/step 7}"] == pytest.approx(1 / 3)
    assert found["assay_run_reward{reward=dr_kernel,run=verl/grpo/step 7}"] == pytest.approx(1 / 3)
    site = app.test_client()
    for name in (
        "verl/grpo/step 7",
        "verl%2Fgrpo%2Fstep%207",
        site.get("/v1/runs").json["runs"][0]["run_id"],
    ):
        told = site.get(f"/v1/runs/{name}").json
        assert told["name"] == "verl/grpo/step 7"
        figures = told["figures"]
        assert (figures["attempts"], figures["correct"], figures["hacks"], figures["queued"]) == (
            3,
            1,
            1,
            1,
        )
        assert figures["hack_ratio"] == pytest.approx(1 / 3)
        assert figures["rewards"]["dr_kernel"] == pytest.approx(1 / 3)
        assert figures["last_evaluation_at"] is not None
    assert site.get("/v1/runs/nobody").status_code == 404


def test_requests_are_counted_by_route(app: flask.Flask) -> None:
    site = app.test_client()
    for _ in range(2):
        assert site.get("/v1/runs/unknown", buffered=True).status_code == 404
    found = scraped(app)
    assert found["assay_http_requests_total{method=GET,route=/v1/runs/<given:run>,status=404}"] == 2
    assert found["assay_http_requests_in_flight{}"] == 1, "this one"


def test_the_hack_ratio_of_a_run_is_of_all_answers(
    database: Database, broker: Celery, app: flask.Flask
) -> None:
    for candidate in ("cheat", "good", None, None):
        turn = Turn(messages=(), response=candidate or "I cannot.", candidate=candidate)
        enqueue.enqueue_trajectory(
            database, broker, request=fakes.request(), turns=[turn], run=Run(name="r")
        )
    run_one(database, evaluation=fakes.passed(), verdict=fakes.hack())
    run_one(database, evaluation=fakes.passed(), verdict=fakes.clean())
    found = scraped(app)
    assert found["assay_run_evaluations{run=r}"] == 2
    of_page = app.test_client().get("/v1/runs/r").json["figures"]
    assert (of_page["attempts"], of_page["hack_ratio"]) == (4, pytest.approx(1 / 4))
    assert found["assay_run_hack_ratio{run=r}"] == pytest.approx(1 / 4)


def test_the_reward_of_a_run_is_of_all_answers(
    database: Database, broker: Celery, app: flask.Flask
) -> None:
    """A run of answers without code alone is there, too."""
    for run, candidate in (("r", "good"), ("r", None), ("r", None), ("silent", None)):
        turn = Turn(messages=(), response=candidate or "I cannot.", candidate=candidate)
        enqueue.enqueue_trajectory(
            database, broker, request=fakes.request(), turns=[turn], run=Run(name=run)
        )
    run_one(database, evaluation=fakes.passed(), verdict=fakes.clean())
    found = scraped(app)
    for run in ("r", "silent"):
        of_page = app.test_client().get(f"/v1/runs/{run}").json["figures"]["rewards"]
        for name, mean in of_page.items():
            sample = f"assay_run_reward{{reward={name},run={run}}}"
            assert found[sample] == pytest.approx(mean), name
    assert found["assay_run_reward{reward=dr_kernel,run=r}"] == pytest.approx(1 / 3)
    assert found["assay_run_evaluations{run=silent}"] == 0


def test_answers_without_code_count_for_the_time_of_the_latest_evaluations(
    database: Database, broker: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_figures, "LATEST", 1)
    for candidate in (None, "good", None):
        turn = Turn(messages=(), response=candidate or "I cannot.", candidate=candidate)
        enqueue.enqueue_trajectory(
            database, broker, request=fakes.request(), turns=[turn], run=Run(name="r")
        )
        if candidate is not None:
            run_one(database, evaluation=fakes.passed(), verdict=fakes.clean())
    with database.begin() as connection:
        (found,) = run_figures.latest(connection)
    assert (found.evaluations, found.rewards["dr_kernel"]) == (1, pytest.approx(1 / 2))
