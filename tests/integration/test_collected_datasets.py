"""Datasets of a collection: the rows are the messages as they were sent and the
tokens as the server gave them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from app import cli
from app.domain.collection.call import ModelAnswer, ModelRequest
from app.embedded import Services
from app.settings import Settings
from tests.integration.collecting import Site, exported, opened, said, specification

WRONG = "```python\n# wrong {0}\nimport triton\nclass ModelNew: pass\n```"
RIGHT = "A better one.\n\n```python\n# passes {0}\nimport triton\nclass ModelNew: pass\n```"
PROMPT, ANSWER = 10, 4
"""Tokens that every message adds to a prompt, and tokens of an answer."""


class Scripted:
    """One sample is right at once, the other one in its second turn."""

    def __init__(self) -> None:
        self.said: dict[str | None, str] = {}

    def __call__(self, request: ModelRequest) -> ModelAnswer:
        turn, number = len(request.messages) // 2, len(self.said)
        text = (WRONG if number == 0 else RIGHT).format(number)
        self.said[request.request_id] = text
        before = turn * (PROMPT + ANSWER) + PROMPT
        ids = tuple(range(before, before + ANSWER))
        logprobs = tuple(-0.5 - 0.125 * turn for _ in ids)
        return said(text, prompt_token_ids=tuple(range(before)), token_ids=ids, logprobs=logprobs)


model = Scripted()


@pytest.fixture(scope="module")
def collected(services: Services) -> Iterator[tuple[Site, Settings]]:
    """Two samples of two turns."""
    with opened(services, model) as (site, settings):
        site.start(
            specification(
                strategy={"name": "sequential", "samples": 2, "turns": 2},
                sampling={"token_ids": True},
            )
        )
        site.run()
        yield site, settings


CHOSEN = {"similarity": "none", "context": "wrong"}


def conversations(site: Site, turn: int) -> list[list[dict[str, str]]]:
    """Messages of the calls of a turn as sent, with their answers."""
    asked = [request for request in site.asked if len(request.messages) == 2 * turn + 1]
    assert len(asked) == 2
    return [
        [
            *(vars(message) for message in request.messages),
            {"role": "assistant", "content": model.said[request.request_id]},
        ]
        for request in asked
    ]


def test_sft_rows_are_the_messages_as_sent(
    collected: tuple[Site, Settings], tmp_path: Path
) -> None:
    site, _ = collected
    found = exported(site, tmp_path / "sft", format="trl_sft", **CHOSEN)
    expected = [conversations(site, 0)[1], *conversations(site, 1)]
    assert sorted(([*row["prompt"], *row["completion"]] for row in found), key=str) == sorted(
        expected, key=str
    )


def test_the_lineage_names_the_calls(collected: tuple[Site, Settings], tmp_path: Path) -> None:
    site, _ = collected
    exported(site, tmp_path / "sft", format="trl_sft", **CHOSEN)
    calls = {row.model_call_id: row for row in site.rows("model_calls")}
    nodes = {row.node_id: row for row in site.rows("nodes")}
    lines = [
        line
        for file in tmp_path.glob("sft/lineage-*")
        for line in pq.ParquetFile(file).read().to_pylist()
    ]
    assert sorted(line["role"] for line in lines) == ["answer"] * 3 + ["context"] * 2
    for line in lines:
        node = nodes[
            next(call for key, call in calls.items() if str(key) == line["model_call_id"]).node_id
        ]
        assert str(node.turn_id) == line["turn_id"]
        assert node.turn == 0 or line["role"] == "answer"


def test_pairs_are_of_answers_to_the_same_messages(
    collected: tuple[Site, Settings], tmp_path: Path
) -> None:
    site, _ = collected
    [row] = exported(site, tmp_path / "dpo", format="trl_preference", **CHOSEN)
    wrong, right = conversations(site, 0)
    assert [row["prompt"], row["chosen"], row["rejected"]] == [right[:-1], right[-1:], wrong[-1:]]
    assert wrong[:-1] == right[:-1]


def test_prompts_for_rl_are_the_problem_with_its_pass_rate(
    collected: tuple[Site, Settings], tmp_path: Path
) -> None:
    site, _ = collected
    [row] = exported(site, tmp_path / "rl", format="trl_prompts", pass_rate=[0.0, 1.0])
    assert row["prompt"] == [vars(message) for message in site.asked[0].messages]
    assert row["pass_rate"] == 0.5  # first answers only


def test_rewards_have_every_turn(collected: tuple[Site, Settings], tmp_path: Path) -> None:
    site, _ = collected
    found = exported(site, tmp_path / "rewards", format="rewards")
    assert sorted((row["turn"], row["status"]) for row in found) == [
        (0, "incorrect"),
        (0, "passed"),
        (1, "passed"),
        (1, "passed"),
    ]


def test_token_rows_are_the_ids_of_the_server(
    collected: tuple[Site, Settings], tmp_path: Path
) -> None:
    site, settings = collected
    out = tmp_path / "rows.jsonl"
    done = CliRunner(env=settings.to_env()).invoke(
        cli.main, ["collect", "tokens", "a", "--out", str(out)]
    )
    assert done.exit_code == 0, done.output
    found = [json.loads(line) for line in out.read_text().splitlines()]
    outcomes = {str(row.model_call_id): row.outcome for row in _calls_with_outcomes(site)}
    assert [(row["sample"], row["problem"], row["stop_reason"]) for row in found] == [
        (0, "softmax", "max_turns"),
        (1, "softmax", "max_turns"),
    ]
    both = 2 * (PROMPT + ANSWER)
    for row in found:
        assert row["ids"] == list(range(both))
        assert row["mask"] == ([0] * PROMPT + [1] * ANSWER) * 2
        assert (
            row["logprobs"] == [0.0] * PROMPT + [-0.5] * ANSWER + [0.0] * PROMPT + [-0.625] * ANSWER
        )
        assert row["turn_ends"] == [PROMPT + ANSWER - 1, both - 1]
        assert row["turn_rewards"] == [outcomes[call]["reward"] for call in row["model_call_ids"]]
    assert {row["turn_rewards"][0] < row["turn_rewards"][1] for row in found} == {True, False}
    assert len({row["group"] for row in found}) == 1


def test_a_file_of_token_rows_stays_where_there_are_none_to_write(
    collected: tuple[Site, Settings], tmp_path: Path
) -> None:
    out = tmp_path / "rows.jsonl"
    out.write_text("of another collection\n")
    done = CliRunner(env=collected[1].to_env()).invoke(
        cli.main, ["collect", "tokens", "b", "--out", str(out)]
    )
    assert (done.exit_code, out.read_text()) == (2, "of another collection\n")
    assert list(tmp_path.iterdir()) == [out]


def _calls_with_outcomes(site: Site) -> list[Any]:
    nodes = {row.node_id: row for row in site.rows("nodes")}
    return [
        type(
            "Call",
            (),
            {"model_call_id": call.model_call_id, "outcome": nodes[call.node_id].outcome},
        )
        for call in site.rows("model_calls")
    ]
