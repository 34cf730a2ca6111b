"""Reward hooks of trainers against our server, with their own packages where those are installed.

The packages are in the group `trainers` (pip install '.[trainers]'); without them
the same calls are made by hand.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import pickle
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient

from app.client import Client
from app.domain import reward_request
from app.domain.job import REWARD_BUDGET_S
from app.integrations import scoring, trl, verl
from app.settings import Settings
from app.store.postgres.database import DatabaseUnavailableError
from tests.integration.web_app import served

REFERENCE = "import torch\nclass Model: ..."
WRONG = "```python\nwrong as it may be\n```"
FAULT = "```python\nfault as it may be\n```"
SLOW = "```python\nslow 100\n```"


def test_openrlhf(site: FlaskClient, fake_worker: Popen[bytes]) -> None:
    body = {
        "query": [f"{REFERENCE}{WRONG}"] * 2,
        "prompts": [REFERENCE] * 2,
        "labels": [REFERENCE] * 2,
    }
    answer = site.post(
        "/compat/openrlhf/get_reward?reward=calculate_reward_like_kernel", json=body
    ).json
    assert answer == {
        "rewards": [-0.3, -0.3],
        "scores": [0.0, 0.0],
        "extra_logs": {"speedup": [0.0, 0.0], "compiled": [1.0, 1.0], "hack": [0.0, 0.0]},
    }


def test_slime(site: FlaskClient, fake_worker: Popen[bytes]) -> None:
    answer = site.post(
        "/compat/slime/reward", json={"prompt": "p", "response": WRONG, "label": REFERENCE}
    ).json
    assert (answer["score"], answer["status"], answer["correct"]) == (0.0, "incorrect", False)


def test_an_error_before_the_hook_is_json_too(site: FlaskClient) -> None:
    answer = site.post("/compat/slime", json={})
    assert (answer.status_code, answer.json["error"]["kind"]) == (404, "not_found")


def test_no_score_is_an_error_that_trainers_try_again(
    site: FlaskClient, fake_worker: Popen[bytes]
) -> None:
    for path, body in (
        ("/compat/slime/reward", {"response": FAULT, "label": REFERENCE}),
        (
            "/compat/openrlhf/get_reward",
            {"query": [WRONG, FAULT], "prompts": ["", ""], "labels": [REFERENCE] * 2},
        ),
    ):
        answer = site.post(path, json=body)
        assert (answer.status_code, answer.json["error"]["kind"]) == (503, "no_score")
        assert "on fire" in answer.json["error"]["message"]
        assert answer.headers["Retry-After"]


LONG = "".join(chr(0x10000 + 7919 * number % 50_000) for number in range(6_000))
"""Text that does not compress: an index of PostgreSQL holds a third of a page of it."""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"response": WRONG, "label": {"reference": "r", "step": 2**31}}, "step"),
        ({"response": WRONG, "label": {"reference": "r", "sample": 10**30}}, "sample"),
        ({"response": WRONG, "label": {"reference": "r", "run": "a\0b"}}, "run"),
        ({"response": WRONG, "label": {"reference": "r", "model": "\ud800"}}, "model"),
        ({"response": WRONG, "label": {"reference": "r", "run": LONG}}, "at most 500 characters"),
        (
            {"response": WRONG, "label": {"reference": "r", "entry_point": LONG}},
            "at most 500 characters",
        ),
        ({"response": WRONG, "label": {"reference": "r", "entry_point": LONG[:450]}}, "too long"),
        ({"response": WRONG}, "label"),
        ({"response": WRONG, "label": "softmax"}, "expected a UUID"),
        (
            {"response": WRONG, "label": "01a1fddf-d81b-712c-a9d1-55d726f93000"},
            "expected one that is stored",
        ),
        ({"response": WRONG, "label": {"reference": "r", "backend": "fortran"}}, "unknown backend"),
        ({"response": WRONG, "label": {"reference": "r", "gpu": "h900"}}, "gpu: expected one of"),
    ],
)
def test_bad_hooks_say_what_was_expected(
    site: FlaskClient, body: dict[str, Any], message: str
) -> None:
    answer = site.post("/compat/slime/reward", json=body)
    assert answer.status_code == 400
    assert message in answer.json["error"]["message"]
    uneven = site.post(
        "/compat/openrlhf/get_reward", json={"query": ["a"], "prompts": [], "labels": []}
    )
    assert "expected as many queries" in uneven.json["error"]["message"]
    assert (
        site.post(
            "/compat/slime/reward?reward=x", json={"response": "", "label": REFERENCE}
        ).status_code
        == 400
    )


def test_verl(connected: Client, fake_worker: Popen[bytes]) -> None:
    call = functools.partial(verl.compute_score, data_source="kernel_assay", ground_truth=REFERENCE)
    info = {"backend": "torch", "entry_point": "Model", "index": 3}
    verls = {"reward_router_address": None, "reward_model_tokenizer": None}
    score = asyncio.run(
        call(solution_str=WRONG, extra_info=info, reward="calculate_reward_like_kernel", **verls)
    )
    assert score == {
        "score": -0.3,
        "compiled": 1,
        "correct": 0,
        "hack": 0,
        "speedup": 0,
        "coverage_time": 0,
    }
    with pytest.raises(scoring.NoScoreError, match="on fire"):
        asyncio.run(call(solution_str=FAULT))
    batch = verl.compute_scores(["k"] * 2, [WRONG] * 2, [REFERENCE] * 2, [info, None])
    assert [each["score"] for each in batch] == [0.0, 0.0]
    with pytest.raises(scoring.NoScoreError, match=r"no score: (running|queued)"):
        asyncio.run(call(solution_str=SLOW, deadline_s=0.2))


def test_trl(connected: Client, fake_worker: Popen[bytes]) -> None:
    logged: dict[str, Any] = {}
    (function,) = trl.reward_funcs(reward="calculate_reward_like_kernel")
    assert inspect.iscoroutinefunction(function)
    pickle.loads(pickle.dumps(function))
    rewards = asyncio.run(
        function(
            completions=[WRONG, [{"role": "assistant", "content": FAULT}]],
            reference=[REFERENCE] * 2,
            prompts=["p"] * 2,
            completion_ids=[[1], [2]],
            log_extra=logged.__setitem__,
            log_metric=logged.__setitem__,
        )
    )
    assert rewards == [-0.3, None]
    assert logged["kernel/correct_rate"] == 0.0
    assert logged["kernel_url"][1] is None


def test_rewards_are_timed_briefly_unless_the_request_asks_for_more(
    site: FlaskClient, connected: Client, fake_worker: Popen[bytes]
) -> None:
    def ask(number: int, **chosen: Any) -> None:
        """In every way there is, each with a candidate of its own."""
        code = [f"```python\nwrong {number} {way}\n```" for way in range(4)]
        asyncio.run(verl.compute_score("k", code[0], REFERENCE, **chosen))
        (function,) = trl.reward_funcs(**chosen)
        asyncio.run(function(completions=[code[1]], reference=[REFERENCE]))
        body = {"query": [code[2]], "prompts": [""], "labels": [REFERENCE]}
        assert (
            site.post("/compat/openrlhf/get_reward", query_string=chosen, json=body).status_code
            == 200
        )
        slime = {"response": code[3], "label": REFERENCE}
        assert site.post("/compat/slime/reward", query_string=chosen, json=slime).status_code == 200

    ask(1)
    ask(2, timing_budget_s=0.5)
    with connected.database.begin() as connection:
        stored = connection.execute(
            sa.text("SELECT options->>'timing_budget_s', count(*) FROM jobs GROUP BY 1")
        )
        budgets = {float(seconds): count for seconds, count in stored}
    assert budgets == {REWARD_BUDGET_S: 4, 0.5: 4}
    for wrong in ("much", "-1"):
        answer = site.post(
            "/compat/slime/reward",
            query_string={"timing_budget_s": wrong},
            json={"response": "", "label": REFERENCE},
        )
        assert (answer.status_code, "timing_budget_s" in answer.json["error"]["message"]) == (
            400,
            True,
        )


def test_a_service_that_is_away_is_missing_and_not_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    class Away:
        def submit_rollouts(self, rollouts: object) -> None:
            raise DatabaseUnavailableError("down")

    monkeypatch.setattr(scoring, "_client", lambda _pid, _url: Away())
    (function,) = trl.reward_funcs()
    assert asyncio.run(function([WRONG], reference=[REFERENCE])) == [None]
    with pytest.raises(scoring.NoScoreError, match="no service"):
        asyncio.run(verl.compute_score("k", WRONG, REFERENCE))


# --- the real packages --------------------------------------------------------------------------


def test_verls_own_loader_and_manager(connected: Client, fake_worker: Popen[bytes]) -> None:
    pytest.importorskip("verl")
    from omegaconf import OmegaConf
    from verl.trainer.ppo.reward import get_custom_reward_fn

    function = {
        "path": "pkg://app.integrations.verl",
        "name": "compute_score",
        "reward_kwargs": {"gpu": "cpu"},
    }
    loaded = get_custom_reward_fn(
        OmegaConf.create({"reward": {"custom_reward_function": function}})
    )
    score = asyncio.run(
        loaded(
            data_source="k",
            solution_str=WRONG,
            ground_truth=REFERENCE,
            extra_info={"num_turns": None},
        )
    )
    assert score["score"] == 0.0


def test_openrlhfs_own_client(settings: Settings, fake_worker: Popen[bytes]) -> None:
    agent = pytest.importorskip("openrlhf.utils.agent")
    with served(settings) as url:
        executor = agent.SingleTurnAgentExecutor([f"{url}/compat/openrlhf/get_reward"])
        (answer,) = asyncio.run(executor._fetch_rewards_via_http([WRONG], [""], [REFERENCE]))
    assert answer["rewards"] == [0.0]


def test_trls_own_trainer(
    connected: Client, fake_worker: Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One step of GRPO with a tiny model; its letters stand for an order that the
    fake worker understands.
    """
    pytest.importorskip("trl")
    from tests.integration.tiny_trainer import step

    monkeypatch.setattr(reward_request, "candidate", lambda _answer: "wrong as it may be")
    found = step(trl.reward_funcs(reward="calculate_reward_like_kernel"), REFERENCE, tmp_path)
    assert found["rewards/kernel_reward/mean"] == pytest.approx(-0.3)
    assert found["kernel/correct_rate"] == 0.0


@pytest.mark.filterwarnings("ignore")  # warnings of other packages
def test_verls_reward_workers_number_samples_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each worker sees some of a group's answers, and no two of them give one number."""
    pytest.importorskip("verl")
    import numpy as np
    import torch
    from verl import DataProto

    from app.integrations import verl_manager

    seen: list[dict[str, Any]] = []

    async def score(extra_info: dict[str, Any], **_: Any) -> float:
        seen.append(extra_info)
        return 0.0

    told: dict[str, Any] = {
        "data_source": "k",
        "reward_model": {"ground_truth": REFERENCE},
        "uid": "u",
        "extra_info": {"step": 3},
    }
    told |= {
        "raw_prompt": [{"role": "user", "content": "go"}],
        "tool_extra_fields": {"max_global_steps": 4},
    }
    rows = {name: np.array([value, None], dtype=object)[:1] for name, value in told.items()}
    tensors = {name: torch.tensor([[1, 2, 0]]) for name in ("responses", "prompts")}
    data = DataProto.from_single_dict(
        {**rows, **tensors, "attention_mask": torch.tensor([[1, 1, 1, 1, 1, 0]])}
    )

    async def scored() -> None:
        for worker in (0, 2):
            monkeypatch.setattr(verl_manager, "_numbered", lambda _, worker=worker: (worker, 3))
            manager = verl_manager.KernelRewardManager(None, tiny_tokenizer(), score)
            for _ in range(2):
                await manager.run_single(data)

        # the trainer of version 1 says it so; the engine's field is of the weights
        placed = {"global_steps": np.array([7]), "session_id": np.array([1])}
        others = {"extra_info": {}, "tool_extra_fields": {"global_steps": 6}}
        data.non_tensor_batch |= {
            **placed,
            **{name: np.array([one], dtype=object) for name, one in others.items()},
        }
        await manager.run_single(data)

    asyncio.run(scored())
    last = seen.pop()
    assert (last["step"], last["sample"]) == (7, 1)
    assert [one["sample"] for one in seen] == [0, 3, 2, 5]
    assert {(one["uid"], one["step"], one["global_steps"]) for one in seen} == {("u", 3, 4)}
    assert [one["response_ids"] for one in seen] == [[1, 2]] * 4
    assert told["extra_info"] == {"step": 3}, "the batch's own fields are left alone"


def tiny_tokenizer() -> Any:
    from tests.integration.tiny_trainer import tokenizer

    return tokenizer()
