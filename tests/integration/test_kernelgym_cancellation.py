"""Cancellation by KernelGYM's protocol, with a worker that pretends."""

from __future__ import annotations

from subprocess import Popen

import sqlalchemy as sa
from flask.testing import FlaskClient

from app.client import Client
from app.store import tables
from tests.integration.kernelgym import post
from tests.waiting import until


def test_only_the_submitter_may_cancel(site: FlaskClient, client: Client) -> None:
    for name in ("a", "b"):
        post(site, name, wait=0)  # the same job under two names
    assert site.delete("/tasks/a").json == {"message": "Task a cancelled successfully"}
    assert site.get("/status/b").json["status"] == "pending"
    post(site, "c", "slow 5", wait=0)
    site.delete("/tasks/c")
    assert site.get("/status/c").json["status"] == "cancelled"
    assert site.get("/results/c").json["status"] == "failed"
    assert post(site, "c", "slow 5", wait=0).json["status"] == "pending"  # asked for again


def test_a_cancellation_that_is_sent_again_withdraws_no_other_submission(
    site: FlaskClient, client: Client
) -> None:
    post(site, "a", wait=0)
    with client.database.begin() as connection:  # the same is submitted by other means, too
        connection.execute(sa.update(tables.jobs).values(submissions=2))
    for _ in range(2):
        assert site.delete("/tasks/a").status_code == 200
    assert site.get("/status/a").json["status"] == "pending"
    post(site, "a", wait=0)  # asked for again: a submission of its own
    with client.database.begin() as connection:
        assert connection.scalar(sa.select(tables.jobs.c.submissions)) == 2


def test_a_job_under_two_names_is_cancelled_with_the_second(site: FlaskClient) -> None:
    for name in ("a", "b"):
        post(site, name, wait=0)
    for name in ("a", "b"):
        assert site.delete(f"/tasks/{name}").status_code == 200
    assert {site.get(f"/status/{name}").json["status"] for name in "ab"} == {"cancelled"}


def test_a_running_task_is_stopped(site: FlaskClient, fake_worker: Popen[bytes]) -> None:
    post(site, "a", "slow 100", wait=0)
    until(lambda: site.get("/status/a").json["status"] == "processing")
    site.delete("/tasks/a")
    until(lambda: site.get("/status/a").json["status"] == "cancelled")
