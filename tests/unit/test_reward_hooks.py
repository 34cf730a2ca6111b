"""Reward functions of trainers without a service: arguments that nothing reads, and
evaluations that do not end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest

from app.domain.request import RequestError
from app.integrations import scoring, verl


class NoWorker:
    """A client with jobs that wait for a worker."""

    def submit_rollouts(self, rollouts: Sequence[Any]) -> list[Any]:
        return [SimpleNamespace(job_id=uuid4()) for _ in rollouts]

    def over(self, job_ids: Sequence[UUID], timeout_s: float | None) -> Iterator[UUID]:
        raise TimeoutError(
            f"{len(job_ids)} of {len(job_ids)} jobs were not over after {timeout_s} s"
        )

    def results(self, job_ids: Sequence[UUID]) -> list[None]:
        return [None for _ in job_ids]


@pytest.mark.parametrize("batch", [False, True])
def test_a_misspelt_reward_kwarg_is_refused(batch: bool) -> None:
    def score(**more: Any) -> Any:
        if batch:
            return verl.compute_scores(["k"], ["a"], ["r"], [None], **more)
        return asyncio.run(verl.compute_score("k", "a", "r", None, **more))

    with pytest.raises(
        RequestError, match=r"reward_kwargs: unknown gp, rewards; expected some of reward, gpu, url"
    ):
        score(gp="h200", rewards="dr_kernel")


def test_arguments_of_verl_about_reward_models_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "client", lambda _: NoWorker())
    with pytest.raises(scoring.NoScoreError):
        asyncio.run(
            verl.compute_score(
                "k", "a", "r", None, reward_router_address=None, reward_model_tokenizer=None
            )
        )


def test_answers_without_a_worker_are_told_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(scoring, "client", lambda _: NoWorker())
    with pytest.raises(scoring.NoScoreError):
        asyncio.run(verl.compute_score("k", "a", "r", None, gpu="h200", deadline_s=1))
    assert "1 of 1 jobs were not over after 1 s; `assay workers` says" in caplog.text
