"""A multi-turn trajectory all the way: submitted, evaluated for real, read back,
browsed, exported.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import Popen

import pyarrow.parquet as pq
import pytest

from app import export
from app.client import Client
from app.domain.dataset.selection import Context
from app.domain.problem import Problem
from app.domain.trajectory import Message, Run, Turn
from app.web import create_app
from tests import zoo
from tests.waiting import LIMIT_S

pytestmark = pytest.mark.slow
PROBLEM = "pairwise_distance"


def turn(said: str, name: str | None) -> Turn:
    """The model was told `said` and answered with a candidate of the zoo, or without code."""
    code = (zoo.ROOT / f"{name}.py").read_text() if name else None
    answer = f"<think>\ud83d Hm.</think>\n```python\n{code}```" if code else "I do not know."
    return Turn(messages=(Message(role="user", content=said),), response=answer, candidate=code)


TURNS = [
    turn("Make it fast.", "hacks/cache_by_shape"),
    turn("That remembers its answer. Again.", None),
    turn("There was no code. Again.", "honest/pairwise_distance_torch"),
]


def test_from_a_dialogue_to_a_training_row(
    client: Client, start_worker: Callable[..., Popen[bytes]], tmp_path: Path
) -> None:
    start_worker()
    reference = Problem(
        name=PROBLEM, reference=(zoo.ROOT / "problems" / f"{PROBLEM}.py").read_bytes()
    )
    run = Run(name="grpo-7", model="org/model-x", settings={"temperature": 0.7}, step=3)
    trajectory = client.submit_trajectory(
        reference=reference,
        turns=TURNS,
        backend="torch",
        run=run,
        label="first",
        timing_budget_s=0.3,
    )
    job_ids = [each.job_id for each in trajectory.turns if each.job_id]
    first, last = client.wait(job_ids, timeout_s=LIMIT_S)
    assert (first["status"], first["verdict"], first["speedup"]) == ("incorrect", "hack", None)
    assert (last["status"], last["verdict"]) == ("passed", "clean")

    back = client.get_trajectory(trajectory.trajectory_id)
    assert [(each.messages, each.response, each.candidate) for each in back.turns] == [
        (each.messages, each.response, each.candidate) for each in TURNS
    ]
    assert back.turns[1].job_id is None

    site = create_app(client.settings)
    browser, address = site.test_client(), f"/trajectories/{trajectory.trajectory_id}"
    page = browser.get(address).text
    second = browser.get(f"{address}?turn=1&tab=prompt").text
    site.extensions["assay"]["database"].dispose()
    for shown in ("grpo-7", "org/model-x", "no code", "incorrect", "hack", "passed"):
        assert shown in page
    assert "That remembers its answer." in second

    where = "run=grpo-7 and correct and verdict=clean"
    with pytest.raises(
        export.ExportError, match="earlier answers that the row shows: right and clean"
    ):
        export.export(client.database, export.Spec(where=where), tmp_path / "without_hacks")
    manifest = export.export(
        client.database, export.Spec(where=where, context=Context.ANY), tmp_path / "sft"
    )
    assert export.verify(tmp_path / "sft") == []
    assert manifest.rows == 1
    files = (tmp_path / "sft" / "data").iterdir()
    (row,) = (row for file in files for row in pq.read_table(file).to_pylist())
    messages = row["prompt"] + row["completion"]
    assert len(row["completion"]) == 1, "the hack is shown and not learnt"
    assert [message["role"] for message in messages] == ["user", "assistant"] * 3
    assert [message["content"] for message in messages[::2]] == [
        each.messages[0].content for each in TURNS
    ]
    assert "torch.cdist" in messages[-1]["content"]
    origin = (row["turn"], row["run"], row["model"], row["sanitized"])
    assert origin == (2, "grpo-7", "org/model-x", True)
    assert row["speedup"] == last["speedup"]
