"""ENQUEUE: verl's agent loop: a session a trajectory, with the reward of every turn
on its last token.

    actor_rollout_ref.rollout.agent.default_agent_loop=kernel_assay
    actor_rollout_ref.rollout.agent.agent_loop_config_path=kernel_assay.yaml
    algorithm.adv_estimator=assay_trloo

    # kernel_assay.yaml
    - name: kernel_assay
      _target_: app.integrations.verl_agent_loop.KernelAgentLoop
      spec: {strategy: {turns: 3}, device_class: h200}
      run: trloo-1

The rows are an export of the format `verl_rl`.  The conversation begins with the session's prompt,
not with the row's. A row of the batch is a whole trajectory.  verl's trainer of version 1 takes
rewards a token and leaves a trajectory out that an infrastructure fault cut; its older one takes
only their sum, and NoScoreError ends its step.

Needs verl, and is imported by its trainer alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput
from verl.utils.profiler import simple_timer

from app.client import KernelSession
from app.client.session import DEADLINE_S
from app.domain.collection.call import End
from app.domain.reward_request import PLACE, place
from app.integrations import sessions
from app.integrations.scoring import NoScoreError

_log = logging.getLogger(__name__)

ABORTED = "aborted"
"""verl's word for an answer that its server broke off, as it does to load new weights."""
PREFIX = "assay_"
"""Names of the advantage estimators that see turns."""


class TurnOutput(AgentLoopOutput):  # type: ignore[misc]  # verl has no types
    """`AgentLoopOutput` with a reward for every turn."""

    turn_ends: list[int]
    """Index of the last token of each answer."""
    turn_rewards: list[float]

    def as_dict(self) -> dict[str, Any]:
        """Tensors of the row; `rm_scores` has each reward on its turn's last token."""
        found: dict[str, Any] = super().as_dict()
        ends, rewards = found.pop("turn_ends"), found.pop("turn_rewards")
        scores = found["rm_scores"]
        scores.zero_()
        for end, reward in zip(ends, rewards, strict=True):
            scores[end] = reward
        return found


class KernelAgentLoop(AgentLoopBase):  # type: ignore[misc]  # verl has no types
    """One dialogue.  `spec`: keys of a collection's specification; `run` and `model`
    name the training.
    """

    def __init__(
        self,
        *args: Any,
        spec: Any = None,
        url: str | None = None,
        run: str | None = None,
        model: str | None = None,
        deadline_s: float = DEADLINE_S,
        **more: Any,
    ) -> None:
        super().__init__(*args, **more)
        self._spec = (
            OmegaConf.to_container(spec, resolve=True) if OmegaConf.is_config(spec) else spec
        )
        self._url, self._deadline_s = url, deadline_s
        self._told = {"run": run, "model": model}
        check_estimator(self.config)

    async def run(
        self, sampling_params: dict[str, Any], **row: Any
    ) -> TurnOutput | list[TurnOutput]:
        """Play the dialogue of a row; an empty list for one that a fault cut, where verl takes one.

        Raises NoScoreError, and RequestError for a bad row or specification."""
        session = await asyncio.to_thread(self._open, row)
        played = _Played(prompt=await self.ct_build_initial_tokens(session.messages))
        metrics: dict[str, Any] = {}
        while not session.done:
            if played.mask and not await self._hear(session, played):
                break
            await self._turn(session, played, sampling_params, metrics)
        if session.unfinished:
            if "session_id" not in row:  # the trainer before version 1
                raise NoScoreError(f"no score: {session.stop_reason}")
            _log.error("a trajectory is left out: %s", session.stop_reason)
            return []
        return self._output(session, played, metrics)

    async def _turn(
        self,
        session: KernelSession,
        played: _Played,
        sampling_params: Mapping[str, Any],
        metrics: dict[str, Any],
    ) -> None:
        """One answer and its evaluation.  An answer without a token ends the session
        as unfinished.
        """
        most = min(session.max_tokens, self.rollout_config.response_length - len(played.mask))
        asked = {**sampling_params, "max_tokens": most}
        before = [*played.prompt, *played.ids]
        with simple_timer("generate_sequences", metrics):
            said = await self.server_manager.generate(
                request_id=played.request_id, prompt_ids=before, sampling_params=asked
            )
        if not said.token_ids:  # aborted: there is no token that could bear a reward
            await asyncio.to_thread(session.end)
            return
        played.see(said.extra_fields)
        merged, played.mask, played.logprobs = await self.ct_merge_assistant_token(
            before,
            said.token_ids,
            played.mask,
            played.logprobs,
            assistant_logprobs=said.log_probs or None,
        )
        played.ids = merged.token_ids[len(played.prompt) :]
        played.ends.append(len(played.mask) - 1)
        text = self.tokenizer.decode(said.token_ids, skip_special_tokens=True)
        end = End.LENGTH if len(said.token_ids) >= most else End.STOP
        if said.stop_reason == ABORTED:
            end = End.ABORT
        with simple_timer("compute_score", metrics):
            await session.answer_async(text, end=end, tokens=(len(before), len(said.token_ids)))

    async def _hear(self, session: KernelSession, played: _Played) -> bool:
        """Append the feedback; False where no room is left for another answer."""
        messages = session.messages
        merged, mask, logprobs = await self.ct_merge_context_msg(
            messages[:-1], messages, [*played.prompt, *played.ids], played.mask, played.logprobs
        )
        if len(mask) >= self.rollout_config.response_length:
            await asyncio.to_thread(session.overflow)
            return False
        played.ids, played.mask, played.logprobs = (
            merged.token_ids[len(played.prompt) :],
            mask,
            logprobs,
        )
        return True

    def _output(
        self, session: KernelSession, played: _Played, metrics: dict[str, Any]
    ) -> TurnOutput:
        rewards = [reward for reward in session.rewards if reward is not None]
        facts = sessions.figures(session)
        return TurnOutput(
            prompt_ids=played.prompt,
            response_ids=played.ids,
            response_mask=played.mask,
            response_logprobs=played.logprobs,
            reward_score=sum(rewards),
            num_turns=2 * len(rewards),
            metrics=AgentLoopMetrics(**metrics),
            extra_fields={
                **played.versions,
                "turn_scores": rewards,
                "tool_rewards": [],
                "reward_extra_info": facts,
            },
            turn_ends=played.ends,
            turn_rewards=rewards,
        )

    def _open(self, row: Mapping[str, Any]) -> KernelSession:
        info = dict(row.get("extra_info") or {})
        reference = dict(row.get("reward_model") or {}).get("ground_truth")
        told = {
            name: value
            for name, value in {**info, **self._told}.items()
            if name in PLACE and value is not None
        }
        told.setdefault("group", row.get("uid"))
        told.setdefault("sample", row.get("session_id"))
        told.setdefault("step", row.get("global_steps"))
        session = sessions.opened(
            "verl",
            {**info, "reference": reference},
            self._spec,
            url=self._url,
            place=place(told, "extra_info"),
            deadline_s=self._deadline_s,
        )
        sessions.check_grows(session.spec)
        return session


class _Played:
    """Tokens of a trajectory: the first prompt, and everything behind it."""

    def __init__(self, prompt: Sequence[int]) -> None:
        self.prompt = list(prompt)
        self.ids: list[int] = []
        self.mask: list[int] = []
        self.logprobs: list[float] | None = []
        self.ends: list[int] = []
        self.versions: dict[str, Any] = {}
        """First and last training step of the weights that answered; verl's figures
        of staleness need both.
        """
        self.request_id = uuid4().hex

    def see(self, told: Mapping[str, Any]) -> None:
        """Note the weights of an answer."""
        self.versions.setdefault("min_global_steps", told.get("min_global_steps"))
        self.versions["max_global_steps"] = told.get("max_global_steps")


def check_estimator(config: Any) -> None:
    """Raise RuntimeError where the configured advantage estimator is one of Assay's and is not
    registered: verl hides errors of plug-ins in its debug log.
    """
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY

    name = str(OmegaConf.select(config, "algorithm.adv_estimator") or "")
    if name.startswith(PREFIX) and name not in ADV_ESTIMATOR_REGISTRY:
        raise RuntimeError(
            f"algorithm.adv_estimator: {name} is not registered: verl did not load the plug-in"
            " `assay` (python -m workers.training.verl_check says why)"
        )
