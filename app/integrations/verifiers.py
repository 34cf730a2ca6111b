"""ENQUEUE: taskset and environment of verifiers (v1): dialogues with the evaluator,
for its trainers and its `eval`.

    vf-eval kernel-assay --env.taskset.problems prompts.jsonl \\
        --env.taskset.spec '{"strategy": {"turns": 3}}' --push False

`kernel-assay` is the distribution's package `kernel_assay`, which exports both classes.  `problems`
is a file of rows (JSON lines) with `reference` (or `reference_code`), `problem_id`, `entry_point`
and `backend`, on top or in a table as exported prompts have them.  The trace holds the reward of
every turn in `info["turn_rewards"]`; its reward is their sum.  A fault of the infrastructure is an
error of the trace, which trainers leave out of the group.

Needs verifiers, and is imported by its users alone.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import verifiers.v1 as vf

from app.client import KernelSession
from app.client.session import DEADLINE_S
from app.domain.collection.call import End
from app.domain.request import RequestError
from app.domain.rollout import Place
from app.integrations import sessions
from app.integrations.scoring import NoScoreError

__all__ = ["KernelEnv", "KernelTaskset"]


class KernelData(vf.TaskData):  # type: ignore[misc]  # not installed where types are checked
    """A problem."""

    reference: str | None = None
    problem_id: str | None = None
    entry_point: str | None = None
    backend: str | None = None


class KernelTask(vf.Task[KernelData, vf.State, vf.TaskConfig]):  # type: ignore[misc]
    """Scores of a dialogue, from the facts that the environment put on the trace."""

    async def finalize(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        """Fail the rollout of which a reward is missing.  An error recorded earlier
        would leave it scored: verifiers says at the end of a rollout whether it is good,
        by the exceptions that were raised.
        """
        await super().finalize(trace, runtime)
        if trace.info.get("no_score"):
            raise NoScoreError(f"no score: {trace.info['stop_reason']}")

    @vf.reward  # type: ignore[untyped-decorator]
    async def turns(self, trace: vf.Trace) -> float:
        """Sum of the turns' rewards."""
        return float(sum(trace.info["turn_rewards"]))

    @vf.metric  # type: ignore[untyped-decorator]
    async def correct(self, trace: vf.Trace) -> float:
        """1 where an answer was correct and no hack."""
        return float(trace.info["correct"])

    @vf.metric  # type: ignore[untyped-decorator]
    async def best_speedup(self, trace: vf.Trace) -> float:
        """Largest credited speedup; 0 without one."""
        return float(trace.info["best_speedup"])


class KernelTasksetConfig(vf.TasksetConfig):  # type: ignore[misc]
    """Problems, and the specification of their sessions."""

    problems: str = ""
    """Path of the rows, one JSON object a line."""
    spec: dict[str, Any] = {}  # noqa: RUF012 (pydantic copies it)
    """Keys of a collection's specification."""
    url: str | None = None
    """Address of the service; KERNEL_ASSAY_URL without it."""
    run: str | None = None
    model: str | None = None
    deadline_s: float = DEADLINE_S


class KernelTaskset(vf.Taskset[KernelTask, KernelTasksetConfig]):  # type: ignore[misc]
    """One task a problem."""

    def load(self) -> Iterator[KernelTask]:
        """Tasks in the order of the rows.  Raises RequestError without a file."""
        if not self.config.problems:
            raise RequestError("taskset.problems: expected the path of a file with rows, got none")
        with Path(self.config.problems).open() as lines:
            for number, line in enumerate(lines):
                row = sessions.flat(json.loads(line))
                known = {name: row.get(name) for name in ("problem_id", "entry_point", "backend")}
                reference = row.get("reference") or row.get("reference_code")
                data = KernelData(
                    idx=number, id=known["problem_id"], prompt=None, reference=reference, **known
                )
                yield KernelTask(data, self.config.task)


class KernelEnv(vf.SingleAgentEnv):  # type: ignore[misc]
    """A session plays the user."""

    async def run(self, task: KernelTask, agents: vf.Agents) -> None:
        """One dialogue."""
        session = await asyncio.to_thread(self._open, task.data)
        async with agents.agent.interaction(task) as interaction:
            said = await interaction.turn(session.messages)
            while not said.terminated:
                step = await session.answer_async(
                    said.last_reply or "", end=_end(interaction.trace)
                )
                if step.done:
                    break
                said = await interaction.turn(step.feedback)
            await asyncio.to_thread(session.end)
            _record(interaction.trace, session)

    def _open(self, data: KernelData) -> KernelSession:
        config = self.taskset.config
        session = sessions.opened(
            "verifiers",
            data.model_dump(),
            config.spec,
            url=config.url,
            place=Place(run=config.run, model=config.model),
            deadline_s=config.deadline_s,
        )
        sessions.check_grows(session.spec)
        return session


def _end(trace: vf.Trace) -> End:
    """Reason for which the last answer ended."""
    last = trace.calls[-1] if trace.calls else None
    reason = getattr(last, "finish_reason", None)
    return End.LENGTH if reason == "length" else End.STOP


def _record(trace: vf.Trace, session: KernelSession) -> None:
    """Facts of the dialogue on its trace."""
    trace.info |= sessions.figures(session)
    trace.info["turn_rewards"] = [reward for reward in session.rewards if reward is not None]
    trace.info["stop_reason"] = str(session.stop_reason)
    # a dialogue without an answer is the infrastructure's end, and no zero of the model
    trace.info["no_score"] = not session.rewards or None in session.rewards
