"""ENQUEUE: NeMo Gym's resources server: a session a rollout, played by NeMo Gym's
own `gymnasium_agent`.

    # resources_servers/kernel_assay/app.py
    from app.integrations.nemo_gym import KernelServer
    if __name__ == "__main__":
        KernelServer.run_webserver()

and its configuration:

    # resources_servers/kernel_assay/configs/kernel_assay.yaml
    kernel_assay:
      resources_servers:
        kernel_assay:
          entrypoint: app.py
          domain: coding
          run: grpo-1
          spec: {strategy: {turns: 3}, device_class: h200}
    kernel_assay_agent:
      responses_api_agents:
        gymnasium_agent:
          entrypoint: app.py
          max_steps: 3
          resources_server: {type: resources_servers, name: kernel_assay}
          model_server: {type: responses_api_models, name: policy_model}

The rows are an export of the format `nemo_gym_sessions`: no input, because the session writes the
prompt, and the problem in `verifier_metadata`.  The agent's reward is the sum of the turns';
`info["turn_rewards"]` has each. `max_steps` has to be at least the number of turns.  A reward that
an infrastructure fault took away is an error of the request, which NeMo Gym counts as a failed
rollout.  A server is one process, which holds the sessions.

Needs nemo-gym (Python 3.12), and is imported by its users alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from nemo_gym.base_resources_server import BaseResourcesServerConfig
from nemo_gym.openai_utils import NeMoGymResponse
from resources_servers.gymnasium import (
    EnvResetRequest,
    EnvResetResponse,
    GymnasiumServer,
    extract_text,
)
from starlette.requests import Request

from app.client import KernelSession
from app.client.session import DEADLINE_S
from app.domain.collection.call import End
from app.domain.collection.stop_reasons import StopReason
from app.domain.request import RequestError
from app.domain.rollout import Place
from app.integrations import sessions
from app.integrations.scoring import NoScoreError

TRUNCATED = frozenset(
    {StopReason.MAX_TURNS, StopReason.MAX_TOKENS, StopReason.CONTEXT_OVERFLOW, StopReason.BUDGET}
)
"""Reasons that end an episode from outside; all others are the model's own."""


class KernelConfig(BaseResourcesServerConfig):  # type: ignore[misc]  # not installed where types are checked
    """Specification and place of the sessions."""

    spec: dict[str, Any] = {}  # noqa: RUF012 (pydantic copies it)
    """Keys of a collection's specification."""
    url: str | None = None
    """Address of the service; KERNEL_ASSAY_URL without it."""
    run: str | None = None
    model: str | None = None
    deadline_s: float = DEADLINE_S


class KernelServer(GymnasiumServer):  # type: ignore[misc]
    """Sessions by NeMo Gym's session id."""

    config: KernelConfig

    async def _reset_endpoint(self, body: EnvResetRequest, request: Request) -> EnvResetResponse:
        if body.responses_create_params.input:
            raise RequestError(
                "responses_create_params.input: expected none, because the session writes the"
                " prompt"
            )
        return await super()._reset_endpoint(body, request)

    async def reset(
        self, metadata: dict[str, Any], session_id: str | None = None
    ) -> tuple[str | None, dict[str, Any]]:
        """The session's prompt as the first user message.  Raises RequestError."""
        session = await asyncio.to_thread(self._open, metadata)
        self.session_state[session_id] = session
        return _prompt(session), {}

    async def step(
        self,
        action: NeMoGymResponse,
        metadata: dict[str, Any],  # noqa: ARG002 (the session knows its problem)
        session_id: str | None = None,
    ) -> tuple[str | None, float, bool, bool, dict[str, Any]]:
        """Evaluate an answer.  Raises NoScoreError where a fault took the reward,
        RequestError without a session.
        """
        session = self._going(session_id)
        step = await session.answer_async(
            extract_text(action), end=_end(action), tokens=_tokens(action)
        )
        if step.reward is None:
            await self.close_session(session_id)
            raise NoScoreError(f"no score: {step.stop_reason}")
        url = step.result and step.result["url"]
        told: dict[str, Any] = {"turn_rewards": session.rewards, "status": step.status, "url": url}
        if not step.done:
            return step.feedback, step.reward, False, False, told
        told |= {**sessions.figures(session), "stop_reason": str(step.stop_reason)}
        cut = step.stop_reason in TRUNCATED
        return None, step.reward, not cut, cut, told

    async def close_session(self, session_id: str | None) -> None:
        """End a session that goes on, and store its turns."""
        session = self.session_state.pop(session_id, None)
        if session is not None:
            await asyncio.to_thread(session.end)

    def _open(self, metadata: Mapping[str, Any]) -> KernelSession:
        group = metadata.get("_ng_task_index")
        session = sessions.opened(
            "nemo_gym",
            sessions.flat(metadata),
            self.config.spec,
            url=self.config.url,
            place=Place(
                run=self.config.run,
                model=self.config.model,
                group=None if group is None else str(group),
                sample=metadata.get("_ng_rollout_index"),
            ),
            deadline_s=self.config.deadline_s,
        )
        sessions.check_grows(session.spec)
        return session

    def _going(self, session_id: str | None) -> KernelSession:
        session = self.session_state.get(session_id)
        if not isinstance(session, KernelSession):
            raise RequestError("expected a session of this process, got none: /reset comes first")
        return session


def _prompt(session: KernelSession) -> str:
    """The one user message that a session of this server begins with.  Raises RequestError."""
    messages = session.messages
    if [each["role"] for each in messages] != ["user"]:
        raise RequestError(
            "prompts.system: expected none, because NeMo Gym's agent appends one user message"
        )
    return messages[0]["content"]


def _end(action: NeMoGymResponse) -> End:
    return End.LENGTH if action.incomplete_details is not None else End.STOP


def _tokens(action: NeMoGymResponse) -> tuple[int, int] | None:
    usage = action.usage
    return None if usage is None else (usage.input_tokens, usage.output_tokens)
