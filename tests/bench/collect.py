"""Collections against a scripted endpoint: their state after kill -9, and their speed.

    python -m tests.bench.collect storm [--rollouts 200] [--share 0.004] [--seed 1]
    python -m tests.bench.collect pace  [--rollouts 1000] [--flight 64] [--generators 1]
    python -m tests.bench.collect alone [--turns 60]
    python -m tests.bench.collect flight [--calls 500]

`storm` runs one collection twice: in peace, and with two workers of the endpoint that kill
themselves at random at every transition of a call and of a decision; an evaluating worker, Redis
(with and without its data) and PostgreSQL are killed besides.  A tenth of the requests fails (429,
500, 529, broken stream, silence) and some answers are empty. It ends with 1 where an attempt is
missing or doubled, a call was made twice that was not in flight at a death, a budget was passed at
any look, or the two trees differ.

`pace` measures calls a second; `alone` the time that a call takes beyond the endpoint and the
evaluation; `flight` the memory of one worker with that many calls in flight.  Evaluations are
no-ops (tests/integration/fake_worker.py).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections import Counter
from itertools import pairwise
from typing import Any

import sqlalchemy as sa

from app.client import Client
from app.endpoints.scripted.behaviour import Behaviour
from app.endpoints.scripted.process import running
from app.store import tables
from tests.bench.collect_site import (
    patiently,
    script,
    site,
    specification,
    stats,
    wait_for_workers,
    watched,
)
from tests.processes import processor_s, resident_mb

FAULTS = {
    "rate_limited": 0.03,
    "server_error": 0.03,
    "overloaded": 0.01,
    "broken_stream": 0.02,
    "timeout": 0.01,
}
"""Shares of requests: a tenth in all."""
FIRST_TOKEN_S = 100.0
"""Longer than it takes to have all calls in flight, for `flight`."""


def tree(client: Client) -> dict[tuple[str, int, str], tuple[Any, ...]]:
    """Everything that was decided and said, by place.  Amounts are left out: a lost
    call counts at its maximum.
    """
    r, p = tables.collection_rollouts.c, tables.problems.c
    joined = tables.nodes.join(tables.collection_rollouts).join(
        tables.problems, p.problem_id == r.problem_id
    )
    rows = patiently(
        client,
        sa.select(tables.nodes, r.sample.label("of"), r.stop_reason, p.name).select_from(joined),
    )
    told = {}
    for row in rows:
        outcome = {k: v for k, v in (row.outcome or {}).items() if k not in ("tokens", "cost_usd")}
        facts = (
            row.parent,
            tuple(row.shown),
            row.operator,
            row.seed,
            row.answer,
            row.extraction,
            row.stop_reason,
        )
        told[row.name, row.of, row.key] = (*facts, json.dumps(outcome, sort_keys=True))

    return told


def balance(client: Client, url: str) -> dict[str, Any]:
    """Calls as the server and as the rows count them."""
    counted = stats(url)
    k = tables.model_calls.c
    states = Counter(row.state for row in patiently(client, sa.select(k.state)))
    answered_rows = Counter(
        row.node_id for row in patiently(client, sa.select(k.node_id).where(k.state == "answered"))
    )
    turns = patiently(client, sa.select(sa.func.count()).select_from(tables.turns))[0][0]
    nodes = patiently(client, sa.select(tables.nodes.c.state))
    return {
        "asked": sum(counted["asked"].values()),
        "answered_by_server": sum(counted["answered"].values()),
        "rows": dict(states),
        "answered_twice": sum(count > 1 for count in answered_rows.values()),
        "doubled": sum(max(0, count - 1) for count in counted["answered"].values()),
        "turns": turns,
        "attempts": len(nodes),
        "unfinished": sum(row.state != "done" for row in nodes),
        "faults": counted["faults"],
    }


def once(
    rollouts: int, *, problem_count: int, share: float, every_s: float, seed: int, caps: Any
) -> dict[str, Any]:
    module = "tests.bench.dying_generator" if share else "workers.generator.app"
    behaviour = Behaviour(faults=FAULTS, most_faults=3, hang_s=5.0)
    with (
        running(script({"empty": 0.02}), behaviour) as url,
        site(
            url, problem_count=problem_count, flight=32, generators=2, share=share, module=module
        ) as (opened, client),
    ):
        collection_id = client.collect(
            specification(rollouts, problem_count, budgets={"collection": caps})
        )
        seen = watched(opened, client, collection_id, every_s=every_s, seed=seed)
        found = client.collection(collection_id)
        log = opened.log.read_text().split("\n") if opened.log.exists() else []
        deaths = Counter(line for line in log if line)
        return {
            **seen,
            **balance(client, url),
            "ends": found["ends"],
            "deaths": dict(deaths),
            "killed": dict(opened.deaths),
            "reserved_at_the_end": found["reserved"],
            "tree": tree(client),
        }


def storm(given: argparse.Namespace) -> dict[str, Any]:
    caps = {"calls": 100_000, "tokens": 10**9, "usd": 10_000.0}
    how = {"problem_count": 20, "seed": given.seed, "caps": caps}
    peace = once(given.rollouts, share=0.0, every_s=0.0, **how)
    war = once(given.rollouts, share=given.share, every_s=given.every, **how)
    same = peace.pop("tree") == war.pop("tree")
    lost = war["rows"].get("lost", 0)
    verdict = {
        "lost_attempts": peace["attempts"] - war["attempts"] + war["unfinished"],
        "answered_twice": war["answered_twice"],
        "doubled_beyond_those_in_flight": max(0, war["doubled"] - lost),
        "budget_passed": war["budget_passed"] + peace["budget_passed"],
        "same_tree": same,
        "nothing_reserved": not any(war["reserved_at_the_end"].values()),
        "deaths_at_transitions": sum(war["deaths"].values()),
        "transitions_with_a_death": len(war["deaths"]),
    }
    return {"verdict": verdict, "peace": peace, "war": war}


def pace(given: argparse.Namespace) -> dict[str, Any]:
    with (
        running(script({})) as url,
        site(url, problem_count=100, flight=given.flight, generators=given.generators) as (
            opened,
            client,
        ),
    ):
        wait_for_workers(client, given.generators)
        collection_id = client.collect(specification(given.rollouts, 100))
        seen = watched(opened, client, collection_id)
        k = tables.model_calls.c
        span = patiently(client, sa.select(sa.func.min(k.created_at), sa.func.max(k.last_at)))[0]
        seconds = (span[1] - span[0]).total_seconds()
        calls = patiently(client, sa.select(sa.func.count()).select_from(tables.model_calls))[0][0]
        cpu = {number: processor_s(process.pid) for number, process in enumerate(opened.processes)}
        return {
            **seen,
            "calls": calls,
            "calls_per_s": round(calls / seconds, 1),
            "cpu_s_of_generators": round(sum(cpu[number] for number in cpu if number), 1),
            "rss_mb": round(max(resident_mb(process.pid) for process in opened.processes[1:]), 1),
            "ends": client.collection(collection_id)["ends"],
        }


def alone(given: argparse.Namespace) -> dict[str, Any]:
    """One rollout at a time: time of a call beyond the endpoint and the evaluation."""
    with (
        running(script({})) as url,
        site(url, problem_count=1, flight=1, generators=1) as (opened, client),
    ):
        wait_for_workers(client, 1)
        spec = specification(
            1, 1, strategy={"name": "sequential", "samples": 1, "turns": given.turns}
        )
        watched(opened, client, client.collect(spec))
        k, n, j = tables.model_calls.c, tables.nodes.c, tables.jobs.c
        joined = tables.nodes.join(tables.model_calls).outerjoin(tables.jobs, j.job_id == n.job_id)
        columns = (
            n.turn,
            n.created_at,
            k.sent_at,
            k.last_at,
            j.created_at.label("queued"),
            j.started_at,
            j.finished_at,
        )
        rows = patiently(client, sa.select(*columns).select_from(joined).order_by(n.turn))
        overheads = []
        for row, following in pairwise(rows):
            total = (following.sent_at - row.sent_at).total_seconds()
            endpoint = (row.last_at - row.sent_at).total_seconds()
            fresh = row.finished_at is not None and row.queued > row.sent_at
            evaluation = (row.finished_at - row.queued).total_seconds() if fresh else 0.0
            overheads.append(1e3 * (total - endpoint - evaluation))
        overheads.sort()
        return {
            "calls": len(rows),
            "overhead_ms_p50": round(overheads[len(overheads) // 2], 1),
            "overhead_ms_p95": round(overheads[int(0.95 * len(overheads))], 1),
        }


def flight(given: argparse.Namespace) -> dict[str, Any]:
    """Memory of one worker with that many calls in flight, and while their answers are stored."""
    behaviour = Behaviour(first_token_s=FIRST_TOKEN_S)
    worker: dict[str, Any] = {
        "module": "tests.bench.unlimited_generator",
        "silence_s": 2 * FIRST_TOKEN_S,
    }
    with (
        running(script({}), behaviour) as url,
        site(url, problem_count=100, flight=given.calls, generators=1, **worker) as (
            opened,
            client,
        ),
    ):
        wait_for_workers(client, 1)
        client.collect(specification(100 * (given.calls // 100 + 1), 100))
        most, memory, answered = 0, 0.0, 0
        n, until = tables.nodes.c, time.monotonic() + 3 * FIRST_TOKEN_S
        counts = [
            sa.func.count().filter(state) for state in (n.state == "calling", n.answer.is_not(None))
        ]
        while time.monotonic() < until and answered < given.calls:
            calling, answered = patiently(client, sa.select(*counts))[0]
            most = max(most, calling)
            memory = max(memory, resident_mb(opened.processes[1].pid))
            time.sleep(0.2)
        return {"in_flight": most, "answered": answered, "rss_mb": round(memory, 1)}


def leave(_number: int, _frame: object) -> None:
    sys.exit(130)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    one = verbs.add_parser("storm")
    one.add_argument("--rollouts", type=int, default=200)
    one.add_argument(
        "--share", type=float, default=0.004, help="of transitions at which a worker dies"
    )
    one.add_argument(
        "--every", type=float, default=10.0, help="mean seconds between two kills of the rest"
    )
    one.add_argument("--seed", type=int, default=1)
    two = verbs.add_parser("pace")
    two.add_argument("--rollouts", type=int, default=1000)
    two.add_argument("--flight", type=int, default=64)
    two.add_argument("--generators", type=int, default=1)
    three = verbs.add_parser("alone")
    three.add_argument("--turns", type=int, default=60)
    four = verbs.add_parser("flight")
    four.add_argument("--calls", type=int, default=500)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, leave)
    report = {"storm": storm, "pace": pace, "alone": alone, "flight": flight}[given.verb](given)
    print(json.dumps({**report, "cpus": os.cpu_count(), "load": os.getloadavg()[0]}))
    verdict = report.get("verdict", {})
    bad = ("lost_attempts", "answered_twice", "doubled_beyond_those_in_flight", "budget_passed")
    ok = not any(verdict.get(name) for name in bad) and verdict.get("same_tree", True)
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
