"""The rollouts of `tests.bench.rl_proof` as runs with training steps, with the
evaluations that were really made.

    python -m tests.bench.rl_store DIR [--every 1] [--device-class h200]

Stores every evaluation of DIR as a finished job, judged here, then a run for each method and step
of seed 0, whose turns name the jobs that they drew: the run's page shows the learning curve.  The
database is that of the settings, or of the embedded services.  For a database to look at: other
evaluations' figures by device would count them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

from app import enqueue
from app.client import Client
from app.domain.collection import templates, texts
from app.domain.collection.call import End, ModelAnswer
from app.domain.collection.dialogue import Dialogue
from app.domain.result import Result
from app.domain.trajectory import Run, Turn
from app.domain.verdict import Subject
from app.judge import judge
from app.store.evaluation import evaluation_json, evaluations
from app.store.postgres.database import Connection
from app.store.queue import leases
from app.store.trajectory import problems, trajectories
from tests.bench.rl.evaluations import ASSAY, Evaluations
from tests.bench.rl.grammar import CPU, GPU, Grammar
from tests.bench.rl.rollouts import Setting, setting
from tests.bench.rl.training import METHODS, Options

BUDGET_S = 0.08
LEASE_S = 60.0


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--every", type=int, default=1, help="store every so many steps")
    parser.add_argument("--device-class", default="h200")
    given = parser.parse_args()
    with Client() as client:
        print(
            json.dumps(
                store(client, given.folder, every=given.every, device_class=given.device_class)
            )
        )


def store(client: Client, folder: Path, *, every: int, device_class: str) -> dict[str, int]:
    """Store evaluations and rollouts; their numbers."""
    stored = Evaluations.load(folder / "evaluations.json")
    options = json.loads((folder / "report.json").read_text())["options"]
    rows = [row for row in stored.rows if row["checks"] == ASSAY and row["result"]["valid"]]
    sizes = CPU if device_class == "cpu" else GPU
    chosen = {
        name: setting(
            Grammar(sizes),
            turns=Options.turns,
            reward=reward,
            device_class=device_class,
            budget_s=BUDGET_S,
        )
        for name, (_, reward, _) in METHODS.items()
    }
    job_ids: dict[str, UUID] = {}
    for row in rows:
        with client.database.begin() as connection:
            job_ids[row["result"]["job_id"]] = _evaluated(connection, row, stored, chosen["TRLOO"])
    results = {
        row["result"]["job_id"]: (stored.sources[row["sha256"]], row["result"]) for row in rows
    }
    lines = [json.loads(line) for line in (folder / "rollouts.jsonl").read_text().splitlines()]
    wanted = [line for line in lines if (line["step"] - 1) % every == 0]
    for line in wanted:
        with client.database.begin() as connection:
            _rollout(connection, line, chosen[line["method"]], options, results, job_ids)
    return {"evaluations": len(rows), "rollouts": len(wanted)}


def _evaluated(
    connection: Connection, row: Mapping[str, Any], stored: Evaluations, chosen: Setting
) -> UUID:
    """A finished job with its evaluation and verdict."""
    problem, source = chosen.problem(row["problem"]), stored.sources[row["sha256"]]
    request = replace(texts.evaluation(chosen.spec, problem, source), run=None, fresh=True)
    (job_id,) = enqueue.store(connection, [request])
    lease = leases.claim(connection, job_id, "rl_store", LEASE_S)
    assert lease is not None
    evaluation = evaluation_json.decode(row["evaluation"])
    verdict = judge(
        Subject(
            evaluation=evaluation,
            backend=request.backend,
            candidate=source.encode(),
            reference=problem.reference,
        )
    )
    evaluations.add(connection, lease, worker="rl_proof", evaluation=evaluation, verdict=verdict)
    return job_id


def _rollout(
    connection: Connection,
    line: Mapping[str, Any],
    chosen: Setting,
    options: Mapping[str, Any],
    results: Mapping[str, tuple[str, Result]],
    job_ids: Mapping[str, UUID],
) -> None:
    training = f"rl_proof {line['method']} seed 0"
    method, reward, rejects = METHODS[line["method"]]
    recipe = {"method": method, "reward": reward, "mrs_and_prs": rejects, "seed": 0}
    kept = {
        name: options[name]
        for name in ("samples", "learning_rate", "rollout_dtype", "mismatch_bound")
    }
    settings = {"training": training, **recipe, **kept}
    run = Run(
        name=f"{training} step {line['step']}", model=training, settings=settings, step=line["step"]
    )
    problem = chosen.problem(line["problem"])
    trajectories.add(
        connection,
        problem_id=problems.add(connection, [problem])[0],
        backend=chosen.spec.backend,
        turns=_turns(line, chosen, results, job_ids),
        run_id=trajectories.add_run(connection, run),
        label=str(line["sample"]),
    )


def _turns(
    line: Mapping[str, Any],
    chosen: Setting,
    results: Mapping[str, tuple[str, Result]],
    job_ids: Mapping[str, UUID],
) -> list[Turn]:
    """The dialogue again, with its prompts and feedback."""
    shipped = list(templates.shipped())
    used = {
        kind: templates.choose(shipped, ref, kind) for kind, ref in texts.refs(chosen.spec).items()
    }
    dialogue, turns = (
        Dialogue(chosen.spec, chosen.problem(line["problem"]), used, sample=line["sample"]),
        [],
    )
    for name in line["turns"]:
        source, result = results[name]
        dialogue.read(ModelAnswer(text=f"```python\n{source}```\n", end=End.STOP))
        turn = dialogue.judge(result).turn
        assert turn is not None
        turns.append(replace(turn, job_id=job_ids[name]))
    return turns


if __name__ == "__main__":
    main()
