"""Token-level rows of a collection with advantages, and the mismatch of a trainer
with the stored log probabilities.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from celery import Celery

from app.domain.collection.call import ModelAnswer, ModelRequest
from app.domain.review import Opinion
from app.domain.user import LOCAL
from app.settings import Settings
from app.store import tables
from app.store.postgres.database import Database
from app.store.review import reviews
from app.store.review.reviews import GivenReview
from tests.integration.cli import assay
from tests.integration.collecting import CODE, Site, said, specification

PROMPT, ANSWER = (1, 2), (3, 4, 5)
LOGPROBS = (-0.5, -0.25, -1.0)
WRONG = CODE.replace("passes", "fails")


@pytest.fixture
def site(database: Database, broker: Celery, problem_id: UUID) -> Site:
    return Site(database, broker, lambda request: said(CODE))


def collected(site: Site, **facts: Any) -> None:
    """Two rollouts of two turns: wrong then right, and wrong twice; the second
    prompt goes on after the first.
    """
    answers = {0: [WRONG, WRONG], 1: [CODE, WRONG]}

    def model(request: ModelRequest) -> ModelAnswer:
        turn = sum(one.role == "assistant" for one in request.messages)
        prompt = PROMPT if turn == 0 else (*PROMPT, *ANSWER, 6)
        ids = {
            "prompt_token_ids": prompt,
            "token_ids": ANSWER,
            "logprobs": LOGPROBS,
            "logprobs_mode": "processed",
        }
        return said(answers[turn].pop(0), **(ids | facts))

    site.model = model
    site.start(specification(name="c", strategy={"name": "sequential", "samples": 2, "turns": 2}))
    site.run()


def rows_of(settings: Settings, file: Path, *arguments: str) -> list[dict[str, Any]]:
    ran = assay(settings, "collect", "tokens", "c", "--out", str(file), *arguments)
    assert ran.exit_code == 0, ran.output
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_token_rows_carry_the_advantages_of_the_table(
    site: Site, settings: Settings, tmp_path: Path
) -> None:
    collected(site)
    listed = json.loads(assay(settings, "advantages", "--run", "c", "--json").stdout)["turns"]
    by_turn = {one["turn_id"]: one for one in listed}
    plain = rows_of(settings, tmp_path / "plain.jsonl")
    assert len(plain) == 2
    assert "advantages" not in plain[0]
    found = rows_of(settings, tmp_path / "rows.jsonl", "--advantages", "trloo")
    for row in found:
        own = [by_turn[turn_id] for turn_id in row["turn_ids"]]
        assert row["turn_advantages"] == [one["advantage"] for one in own]
        assert row["turn_rewards"] == [one["reward"] for one in own]
        assert row["left_out"] == [one["dropped"] for one in own]
        of_tokens = [[one["advantage"]] * 3 for one in own]
        assert row["advantages"] == [0.0, 0.0, *of_tokens[0], 0.0, *of_tokens[1]]
        assert row["loss_mask"] == row["mask"] == [0, 0, 1, 1, 1, 0, 1, 1, 1]
    assert sorted(row["turn_advantages"][1] for row in found) == pytest.approx([-2.0, 2.0], abs=1.0)


def test_token_rows_have_the_rewards_of_what_is_known_now(
    site: Site, settings: Settings, tmp_path: Path
) -> None:
    """An answer that a reviewer finds to be a hack after its collection is worth one."""
    collected(site)
    before = rows_of(settings, tmp_path / "before.jsonl")
    best = max(reward for row in before for reward in row["turn_rewards"])
    with site.database.begin() as connection:
        for evaluation in connection.execute(sa.select(tables.evaluations.c.evaluation_id)):
            reviews.add(
                connection,
                LOCAL,
                evaluation.evaluation_id,
                GivenReview(label=Opinion.HACK, reason="copies the input"),
            )
    after = rows_of(settings, tmp_path / "after.jsonl")
    assert [row["ids"] for row in after] == [row["ids"] for row in before]
    listed = json.loads(assay(settings, "advantages", "--run", "c", "--json").stdout)["turns"]
    by_turn = {one["turn_id"]: one["reward"] for one in listed}
    for row in after:
        assert row["turn_rewards"] == [by_turn[turn_id] for turn_id in row["turn_ids"]]
    assert max(reward for row in after for reward in row["turn_rewards"]) <= 0 < best
    assert assay(settings, "collect", "atif", "c", "--out", str(tmp_path / "atif")).exit_code == 0
    documents = [json.loads(path.read_bytes()) for path in (tmp_path / "atif").iterdir()]
    told = [step["extra"] for each in documents for step in each["steps"] if "extra" in step]
    assert {each["turn_id"]: each["reward"] for each in told if "turn_id" in each} == by_turn
    assert {each["verdict"] for each in told if "turn_id" in each} == {"hack"}


def test_the_estimator_for_verl_agrees(site: Site, settings: Settings, tmp_path: Path) -> None:
    """The estimator that is registered with verl gives the same advantages from the
    rows' rewards.
    """
    torch = pytest.importorskip("torch")
    from workers.training import verl_plugin

    collected(site)
    rows = rows_of(settings, tmp_path / "rows.jsonl", "--advantages", "trloo")
    size = max(len(row["ids"]) for row in rows)
    rewards, mask, expected = (torch.zeros(len(rows), size, dtype=torch.float64) for _ in range(3))
    for at, row in enumerate(rows):
        rewards[at, row["turn_ends"]] = torch.tensor(row["turn_rewards"], dtype=torch.float64)
        mask[at, : len(row["mask"])] = torch.tensor(row["mask"], dtype=torch.float64)
        expected[at, : len(row["ids"])] = torch.tensor(row["advantages"], dtype=torch.float64)
    found, _ = verl_plugin.estimator("trloo")(rewards, mask, [row["group"] for row in rows])
    assert torch.allclose(found, expected)
    assert expected.any()


@pytest.mark.filterwarnings("ignore")  # warnings of other packages
def test_datasets_loads_token_rows(site: Site, settings: Settings, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    collected(site)
    rows = rows_of(settings, tmp_path / "rows.jsonl", "--advantages", "trloo")
    loaded = datasets.load_dataset(
        "json", data_files=str(tmp_path / "rows.jsonl"), cache_dir=str(tmp_path / "cache")
    )
    assert list(loaded["train"]["advantages"]) == [row["advantages"] for row in rows]
    assert list(loaded["train"]["loss_mask"]) == [row["loss_mask"] for row in rows]


def test_turns_of_rollouts_without_an_end_belong_to_no_group(
    site: Site, settings: Settings, tmp_path: Path
) -> None:
    collected(site)
    with site.database.begin() as connection:
        connection.exec_driver_sql(
            "UPDATE collection_rollouts SET stop_reason = 'budget' WHERE sample = 1"
        )
    found = rows_of(settings, tmp_path / "rows.jsonl", "--unfinished", "--advantages", "trloo")
    whole, ended = sorted(found, key=lambda row: row["sample"])
    assert (ended["turn_rewards"], ended["left_out"]) == ([None, None], ["missing", "missing"])
    assert (set(ended["loss_mask"]), set(ended["advantages"])) == ({0}, {0.0})
    assert whole["turn_advantages"] == whole["turn_scores"]  # alone in its groups


def trainer_file(settings: Settings, folder: Path, form: str, shift: float = 0.05) -> Path:
    """Log probabilities of a trainer that is apart by `shift` on the first token of
    correct answers.
    """
    rows = rows_of(settings, folder / "rows.jsonl", "--advantages", "returns")
    lines: list[dict[str, Any]] = []
    for row in rows:
        train = list(row["logprobs"])
        for reward, end in zip(row["turn_rewards"], row["turn_ends"], strict=True):
            train[end - 2] -= shift if reward else 0.0
        if form == "rows":
            lines.append(row | {"train_logprobs": train})
            continue
        for at, end in enumerate(row["turn_ends"]):
            key = {form: row[f"{form}s"][at]}
            lines.append(key | {"logprobs": train[end - 2 : end + 1]})
    file = folder / "trainer.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def test_rejection_of_good_kernels_is_seen(site: Site, settings: Settings, tmp_path: Path) -> None:
    collected(site)
    answers = []
    for form in ("rows", "model_call_id", "turn_id"):
        file = trainer_file(settings, tmp_path, form)
        ran = assay(
            settings, "mismatch", "c", "--trainer", str(file), "--level", "turn_geo", "--json"
        )
        assert ran.exit_code == 0, ran.output
        answers.append(json.loads(ran.stdout))
    found = answers[0]
    assert answers == [found] * 3
    assert (found["calls"], found["tokens"], found["credited"]) == (4, 12, 1)
    assert found["metrics"]["kl"] == pytest.approx(0.05 / 12, abs=1e-6)
    by_bounds = {one["upper"]: one for one in found["rejection"]}
    assert (by_bounds[1.001]["turns"], by_bounds[1.001]["credited_of_dropped"]) == (1, 1.0)
    assert (by_bounds[1.001]["credited_of_kept"], by_bounds[1.001]["credited_lost"]) == (0.0, 1.0)
    assert by_bounds[1.1]["turns"] == 0
    shown = assay(settings, "mismatch", "c", "--trainer", str(file), "--bounds", "0.999", "1.001")
    assert "0.999 – 1.001" in shown.output


def test_one_side_or_none_is_said(site: Site, settings: Settings, tmp_path: Path) -> None:
    collected(site)
    file = trainer_file(settings, tmp_path, "model_call_id")
    lines = file.read_text().splitlines()
    short = json.loads(lines[0]) | {"logprobs": [-1.0]}
    for arguments, content, expected in (
        (("c",), None, "only the rollout engine's side is stored: 12 tokens of 4 calls"),
        (
            ("nun",),
            None,
            "expected the name of a run, or the name or id of a collection, got 'nun'",
        ),
        (("c",), lines[:3], "expected 4 calls of run c, got 3 (or --partial)"),
        (("c",), ["{}"], "trainer.jsonl:1: expected"),
        (("c",), [lines[0], lines[0]], "trainer.jsonl:2: expected each call once"),
        (("c",), [json.dumps(short)], "expected 3 log probabilities of the trainer, got 1"),
        (("c",), ['{"turn_id": "x", "logprobs": [0.5]}'], "got a log probability of 0.5"),
    ):
        more: tuple[str, ...] = ()
        if content is not None:
            file.write_text("\n".join(content))
            more = ("--trainer", str(file))
        ran = assay(settings, "mismatch", *arguments, *more)
        assert ran.exit_code == 2
        assert expected in " ".join(ran.output.split())
    file.write_text("\n".join(lines[:3]))
    ran = assay(settings, "mismatch", "c", "--trainer", str(file), "--partial", "--json")
    assert json.loads(ran.stdout)["not_in_file"] == 1


def test_a_run_without_log_probabilities_has_neither_side(site: Site, settings: Settings) -> None:
    collected(site, token_ids=None, prompt_token_ids=None, logprobs=None)
    ran = assay(settings, "mismatch", "c")
    assert ran.exit_code == 2
    assert (
        "expected calls with log probabilities of the rollout engine, got none of 4 calls"
        in ran.output
    )
