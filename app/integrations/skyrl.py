"""ENQUEUE: SkyRL-gym's environment: a session a trajectory, with the reward of every turn.

    skyrl_gym.register(id="kernel_assay", entry_point="app.integrations.skyrl:KernelEnv")
    environment.env_class=kernel_assay
    environment.skyrl_gym.kernel_assay={run: grpo-1, spec: {strategy: {turns: 3}}}

The rows are an export of the format `skyrl_prompts`, or have `reward_spec.ground_truth` (the
reference), and `extra_info` with `problem_id`, `entry_point` and `backend`.  The conversation
begins with the session's own prompt. SkyRL puts each reward on the last token of its turn.  It
takes no missing reward, so one that an infrastructure fault took away is NaN, which its loss has to
leave out; `metadata["valid"]` says the same.

Needs skyrl-gym, and is imported by its trainer alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

from app.client import KernelSession
from app.domain.rollout import Place
from app.integrations import sessions

Messages = list[dict[str, str]]


class KernelEnv(BaseTextEnv):  # type: ignore[misc]  # skyrl_gym has no types
    """One dialogue.  `env_config`: `spec`, `url`, `run`, `model` and `deadline_s`;
    `extras`: the row.
    """

    def __init__(
        self, env_config: Mapping[str, Any] | None = None, extras: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__()
        self._config, self._row = dict(env_config or {}), dict(extras or {})
        self._session: KernelSession | None = None

    def init(self, prompt: Messages) -> tuple[Messages, dict[str, Any]]:  # noqa: ARG002 (the session has its own)
        """The first prompt of the session."""
        info = dict(self._row.get("extra_info") or {})
        row = {**info, "reference": dict(self._row.get("reward_spec") or {}).get("ground_truth")}
        place = Place(run=self._config.get("run"), model=self._config.get("model"))
        more = {
            name: self._config[name]
            for name in ("url", "deadline_s")
            if self._config.get(name) is not None
        }
        self._session = sessions.opened("skyrl", row, self._config.get("spec"), place=place, **more)
        sessions.check_grows(self._session.spec)
        self.max_turns = self._session.spec.most_attempts
        return self._session.messages, {}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Evaluate an answer; the observation is the feedback, or nothing at the end."""
        assert self._session is not None, "init comes first"
        step = self._session.answer(action)
        self.turns += 1
        told = (
            []
            if step.done or step.feedback is None
            else [{"role": "user", "content": step.feedback}]
        )
        result = step.result
        return BaseTextEnvStepOutput(
            observations=told,
            reward=math.nan if step.reward is None else step.reward,
            done=step.done,
            metadata={
                "valid": step.reward is not None,
                "status": step.status,
                "stop_reason": step.stop_reason and str(step.stop_reason),
                "url": result["url"] if result else None,
            },
        )

    def close(self) -> None:
        """End a session that was left, and store its turns."""
        if self._session is not None:
            self._session.end()

    def get_metrics(self) -> dict[str, Any]:
        """Figures of the episode."""
        return {} if self._session is None else sessions.figures(self._session)
