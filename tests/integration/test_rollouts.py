"""From exported prompts to scores and stored rollouts: rows of each layout that has a reward go
into its hook in the call that the trainer makes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient

from app import export
from app.client import Client
from app.domain.rollout import Place
from app.domain.trajectory import Message, Turn
from app.export import Spec
from app.export.writers import rows_of
from app.integrations import trl, verl
from app.settings import Settings
from app.store import tables
from app.store.postgres.database import Database
from tests.integration import dataset_seed
from tests.integration.web_app import served

WRONG = "<think>hm</think>Here:\n```python\nwrong {}\n```"
BACKENDS = ("triton", "torch", "cuda")


@pytest.fixture
def exported(database: Database, tmp_path: Path) -> Callable[[str], list[dict[str, Any]]]:
    """Rows of a layout: one problem, tried in each language, under a prompt of two messages."""
    with database.begin() as connection:
        for backend in BACKENDS:
            stored = dataset_seed.evaluate(
                connection,
                dataset_seed.problem(1),
                dataset_seed.code(backend).encode(),
                backend=backend,
            )
            turn = Turn(
                messages=(
                    Message(role="system", content="You write kernels."),
                    Message(role="user", content=f"Use {backend}."),
                ),
                response=f"```python\n{dataset_seed.code(backend)}```",
                candidate=None,
                job_id=stored.job_id,
            )
            dataset_seed.trajectories.add(
                connection, problem_id=stored.problem_id, backend=backend, turns=[turn]
            )

    def rows(layout: str) -> list[dict[str, Any]]:
        export.export(database, Spec(format=layout, val_fraction=0.0), tmp_path / layout)
        files = sorted(str(path) for path in (tmp_path / layout).glob("data/train*"))
        found = [row for file in files for row in rows_of(Path(file))]
        assert len(found) == len(BACKENDS)
        return found

    return rows


def prompt_of(backend: str) -> list[dict[str, str]]:
    return [
        {"role": "system", "content": "You write kernels."},
        {"role": "user", "content": f"Use {backend}."},
    ]


def stored(database: Database, run: str) -> list[dict[str, Any]]:
    """Rollouts of a run and its steps, in the order in which they came."""
    u, t, r, p, j, c = (
        tables.turns,
        tables.trajectories,
        tables.runs,
        tables.problems,
        tables.jobs,
        tables.candidates,
    )
    joined = u.join(t, t.c.trajectory_id == u.c.trajectory_id).join(r, r.c.run_id == t.c.run_id)
    joined = joined.join(p, p.c.problem_id == t.c.problem_id).join(j, j.c.job_id == u.c.job_id)
    joined = joined.join(c, c.c.candidate_id == j.c.candidate_id)
    query = (
        sa.select(
            u.c.messages_json,
            u.c.response,
            t.c.backend,
            t.c.label,
            t.c.claims,
            r.c.name,
            r.c.step,
            r.c.model,
            r.c.settings,
            p.c.source_set,
            p.c.name.label("problem"),
            c.c.backend.label("written_in"),
        )
        .select_from(joined)
        .where(r.c.name.startswith(run))
        .order_by(u.c.turn_id)
    )
    with database.begin() as connection:
        found = [dict(row) for row in connection.execute(query).mappings()]
    return [one | {"messages": json.loads(one["messages_json"])} for one in found]


def assert_stored(
    database: Database, run: str, step: int | None, *, prompted: bool = True
) -> list[dict[str, Any]]:
    """One rollout a language, of the stored problem, under its own prompt, with the
    whole answer.
    """
    found = stored(database, run)
    assert sorted(one["backend"] for one in found) == sorted(BACKENDS)
    for one in found:
        assert (one["source_set"], one["problem"], one["step"]) == ("samples", "1_Op", step)
        assert one["written_in"] == one["backend"]
        if prompted:
            assert one["messages"] == prompt_of(one["backend"])
            assert one["response"].decode() == WRONG.format(one["backend"])
    return found


def test_trl(
    connected: Client, fake_worker: Popen[bytes], exported: Callable[[str], list[dict[str, Any]]]
) -> None:
    """GRPO hands every column but the prompt as a list, and its state."""
    rows = exported("trl_prompts")
    (function,) = trl.reward_funcs(reward="calculate_reward_like_kernel", run="grpo", model="org/m")
    columns = {
        name: [row[name] for row in rows]
        for name in rows[0]
        if name not in ("prompt", "completion")
    }
    for step in (3, 4):
        rewards = asyncio.run(
            function(
                prompts=[row["prompt"] for row in rows],
                completions=[
                    [{"role": "assistant", "content": WRONG.format(row["backend"])}] for row in rows
                ],
                completion_ids=[[1, 2]] * len(rows),
                trainer_state=SimpleNamespace(global_step=step),
                **columns,
            )
        )
        assert rewards == [-0.3] * 3
    found = assert_stored(connected.database, "grpo step 3", 3)
    assert len(stored(connected.database, "grpo")) == 6
    for one in found:
        assert one["model"] == "org/m"
        assert one["label"].endswith("/0")
        assert (one["claims"]["level"], one["claims"]["completion_ids"]) == (2, [1, 2])


def test_verl(
    connected: Client, fake_worker: Popen[bytes], exported: Callable[[str], list[dict[str, Any]]]
) -> None:
    """Its reward manager hands over the ground truth and `extra_info`, with two keys of its own."""
    for layout in ("verl_rl", "drkernel_rl"):
        rows = exported(layout)
        for row in rows:
            backend = row["extra_info"].get("backend") or row["prompt"][-1]["content"].split()[
                1
            ].rstrip(".")
            info = row["extra_info"] | {
                "num_turns": 2,
                "rollout_reward_scores": {},
                "uid": "u7",
                "sample": 1,
            }
            scored = asyncio.run(
                verl.compute_score(
                    row["data_source"],
                    WRONG.format(backend),
                    row["reward_model"]["ground_truth"],
                    info,
                    reward="calculate_reward_like_kernel",
                    run=layout,
                    step=12,
                )
            )
            assert scored["score"] == -0.3
    found = assert_stored(connected.database, "verl_rl step 12", 12)
    assert {one["label"] for one in found} == {"u7/1"}
    assert found[0]["claims"]["extra_info"]["num_turns"] == 2
    assert found[0]["claims"]["data_source"] == "kernel_assay"
    assert {one["source_set"] for one in stored(connected.database, "drkernel_rl")} == {"samples"}


def test_openrlhf(
    site: FlaskClient,
    database: Database,
    fake_worker: Popen[bytes],
    exported: Callable[[str], list[dict[str, Any]]],
) -> None:
    """Its client posts texts that begin with their prompts, and labels word for
    word; after an error it asks again.
    """
    rows = exported("openrlhf_prompts")
    prompts = [f"<s>{row['context_messages'][-1]['content']}" for row in rows]
    answers = [WRONG.format(json.loads(row["label"])["backend"]) for row in rows]
    body = {
        "query": [f"{prompt}{answer}" for prompt, answer in zip(prompts, answers, strict=True)],
        "prompts": prompts,
        "labels": [row["label"] for row in rows],
    }
    for _ in range(2):
        url = "/compat/openrlhf/get_reward?reward=calculate_reward_like_kernel&run=ppo&step=5"
        assert site.post(url, json=body).json["rewards"] == [-0.3] * 3
    found = assert_stored(database, "ppo", 5)
    assert [one["claims"] for one in found] == [{"prompt": prompt} for prompt in prompts]


def test_slime(
    site: FlaskClient,
    database: Database,
    fake_worker: Popen[bytes],
    exported: Callable[[str], list[dict[str, Any]]],
) -> None:
    """It posts prompt, response and label, and nothing of the metadata."""
    for row in exported("slime_prompts"):
        answer = WRONG.format(json.loads(row["label"])["backend"])
        body = {"prompt": row["prompt"], "response": answer, "label": row["label"]}
        assert site.post("/compat/slime/reward?run=slime-1", json=body).json["score"] == 0.0
    assert_stored(database, "slime-1", None)


def test_kernelgym(
    site: FlaskClient,
    database: Database,
    fake_worker: Popen[bytes],
    exported: Callable[[str], list[dict[str, Any]]],
) -> None:
    """Dr. Kernel's client sends the ground truth, the code of the answer, and names of its own."""
    rows = exported("drkernel_rl")
    backends = ["triton", "cuda"]
    for number, backend in enumerate(backends):
        body = {
            "task_id": f"task-{number}",
            "reference_code": rows[0]["reward_model"]["ground_truth"],
            "kernel_code": f"wrong {backend}\n",
            "backend": backend,
            "entry_point": rows[0]["extra_info"]["entry_point"],
            "uuid": rows[0]["extra_info"]["uuid"],
        }
        told = site.post("/evaluate?run=dr&step=2", json=body).json
        assert (told["status"], told["correctness"]) == ("completed", False)
    found = stored(database, "dr step 2")
    assert [(one["source_set"], one["problem"], one["backend"]) for one in found] == [
        ("samples", "1_Op", backend) for backend in backends
    ]
    assert [one["label"] for one in found] == ["task-0", "task-1"]
    assert found[0]["response"].decode() == "```python\nwrong triton\n```"
    assert found[0]["claims"]["uuid"] == rows[0]["extra_info"]["uuid"]


def test_what_a_trainer_does_not_say_is_found_out_or_left_open(
    connected: Client, fake_worker: Popen[bytes], exported: Callable[[str], list[dict[str, Any]]]
) -> None:
    """Reference alone: the stored problem of that content.  Neither run nor step: a
    run a day and trainer.
    """
    [row, *_] = exported("trl_prompts")
    database = connected.database
    asyncio.run(verl.compute_score("k", WRONG.format(1), row["reference_code"]))
    asyncio.run(verl.compute_score("k", WRONG.format(1), row["reference_code"] + "# another\n"))
    known, new = stored(database, "verl 20")
    assert known["name"] == new["name"] == Place().campaign("verl").name
    assert (known["source_set"], known["problem"], known["messages"]) == ("samples", "1_Op", [])
    assert (new["source_set"], known["step"], known["label"]) == ("adhoc", None, None)
    with pytest.raises(
        ValueError, match="expected the id of a stored problem, or a reference, got neither"
    ):
        asyncio.run(trl.kernel_reward(["x"], [None]))


def test_an_id_of_a_problem_with_another_reference_is_not_believed(
    connected: Client, fake_worker: Popen[bytes], exported: Callable[[str], list[dict[str, Any]]]
) -> None:
    [row, *_] = exported("verl_rl")
    info = row["extra_info"]
    asyncio.run(
        verl.compute_score("k", WRONG.format(1), "class Model:\n    other = 1\n", info, run="other")
    )
    asyncio.run(verl.compute_score("k", WRONG.format(1), "", info, run="by id"))
    assert [one["source_set"] for one in stored(connected.database, "other")] == ["adhoc"]
    assert [one["problem"] for one in stored(connected.database, "by id")] == ["1_Op"]


def test_over_http_rollouts_are_stored_as_in_process(
    settings: Settings,
    database: Database,
    fake_worker: Popen[bytes],
    exported: Callable[[str], list[dict[str, Any]]],
) -> None:
    rows = exported("verl_rl")
    with served(settings) as url:
        scored = verl.compute_scores(
            [row["data_source"] for row in rows],
            [WRONG.format(row["extra_info"]["backend"]) for row in rows],
            [row["reward_model"]["ground_truth"] for row in rows],
            [row["extra_info"] for row in rows],
            url=url,
            run="remote",
            step=1,
        )
    assert [one["score"] for one in scored] == [0.0] * 3
    found = assert_stored(database, "remote", 1)
    assert found[0]["claims"]["extra_info"]["problem"] == "1_Op"


def test_rollouts_become_rows_under_their_own_prompts(
    connected: Client,
    fake_worker: Popen[bytes],
    exported: Callable[[str], list[dict[str, Any]]],
    tmp_path: Path,
) -> None:
    rows = exported("verl_rl")
    for row in rows:
        info = row["extra_info"]
        asyncio.run(
            verl.compute_score(
                "k",
                WRONG.format(info["backend"]),
                row["reward_model"]["ground_truth"],
                info,
                run="t",
            )
        )
    export.export(
        connected.database,
        Spec(format="rewards", where="run = t", val_fraction=0.0),
        tmp_path / "again",
    )
    found = [
        row
        for file in (tmp_path / "again").glob("data/*")
        for row in pq.read_table(file).to_pylist()
    ]
    assert len(found) == 3
    for row in found:
        assert row["prompt"] == prompt_of(row["backend"])
        assert row["completion"] == WRONG.format(row["backend"])
        assert (row["problem"], row["prompt_source"]) == ("1_Op", "recorded")
        UUID(row["evaluation_id"])


def test_the_page_of_a_rollout_shows_what_the_trainer_said(
    site: FlaskClient, fake_worker: Popen[bytes], exported: Callable[[str], list[dict[str, Any]]]
) -> None:
    [row, *_] = exported("slime_prompts")
    body = {"prompt": "<s>as text", "response": WRONG.format(1), "label": row["label"]}
    assert site.post("/compat/slime/reward?run=shown&step=9", json=body).status_code == 200
    [line] = site.get("/v1/trajectories?run=shown%20step%209").json["trajectories"]
    page = site.get(f"/trajectories/{line['trajectory_id']}").text
    for piece in ("step 9", "1 further field of its source, unchecked", "as text"):
        assert piece in page
