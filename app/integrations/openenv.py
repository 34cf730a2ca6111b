"""ENQUEUE: an OpenEnv server: a session an episode, with the reward of every turn.

    # server.py
    from app.integrations.openenv import application
    spec = {"strategy": {"turns": 3}, "device_class": "h200"}
    app = application(spec, run="grpo-1", problems="prompts.jsonl")

and then `uvicorn server:app --host 127.0.0.1 --port 8001`.

An episode begins with `reset(reference=…)`, or `problem_id`, with `entry_point` and `backend` where
they are known, and `step`, `group` and `sample` as its place in the training; `reset(seed=n)` takes
row n of `problems`, counted round.  An action is an answer, an observation the prompt of the next
one.  A reward that an infrastructure fault took away is None, which trainers have to leave out.  An
episode that its client leaves is stored with the turns that it has.

OpenEnv's server authenticates no client: serve it to the trainer's host alone.

Needs openenv-core, and is imported by its users alone.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from openenv.core.env_server import Action, Environment, Observation, State, create_app

from app.client import KernelSession
from app.client.session import DEADLINE_S, as_spec
from app.domain.collection.call import End
from app.domain.request import RequestError
from app.domain.reward_request import PLACE, place
from app.integrations import sessions

CONCURRENT = 256
"""Episodes that one server plays at once."""


class KernelAction(Action):  # type: ignore[misc]  # not installed where types are checked
    """An answer of the model."""

    text: str
    reasoning: str | None = None
    truncated: bool = False
    """The token limit cut the answer off."""


class KernelObservation(Observation):  # type: ignore[misc]
    """Outcome of an answer; after `reset`, the first prompt alone."""

    messages: list[dict[str, str]] = []  # noqa: RUF012 (pydantic copies it)
    """The prompt of the next answer; empty at the end."""
    feedback: str | None = None
    """The last of these messages, which follows the answer."""
    status: str | None = None
    correct: bool | None = None
    speedup: float | None = None
    verdict: str | None = None
    stop_reason: str | None = None
    url: str | None = None
    """Page of the evaluation."""


class KernelEnvironment(Environment):  # type: ignore[misc]
    """Sessions, one after another.  `row` chooses a problem by seed where `reset` names none."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(
        self,
        spec: Mapping[str, Any] | None = None,
        *,
        url: str | None = None,
        told: Mapping[str, Any] | None = None,
        rows: Sequence[Mapping[str, Any]] = (),
        turn: Any = None,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        super().__init__()
        self._spec, self._url, self._deadline_s = spec, url, deadline_s
        self._told, self._rows, self._turn = dict(told or {}), rows, turn or itertools.count()
        self._session: KernelSession | None = None
        self._episode: str | None = None

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **row: Any
    ) -> KernelObservation:
        """Begin an episode; the one before it is stored.  Raises RequestError."""
        self.close()
        told = {
            **{name: row.pop(name) for name in PLACE if row.get(name) is not None},
            **self._told,
        }
        if not {"reference", "reference_code", "problem_id"} & row.keys():
            row = {**sessions.flat(self._row(seed)), **row}
        session = sessions.opened(
            "openenv",
            row,
            self._spec,
            url=self._url,
            place=place(told, "reset"),
            deadline_s=self._deadline_s,
        )
        self._session, self._episode = session, episode_id
        return KernelObservation(messages=session.messages)

    def step(
        self,
        action: KernelAction,
        timeout_s: float | None = None,  # noqa: ARG002
        **_: Any,
    ) -> KernelObservation:
        """Evaluate an answer.  Raises RequestError before `reset` and after the end."""
        session = self._going()
        end = End.LENGTH if action.truncated else End.STOP
        step = session.answer(action.text, reasoning=action.reasoning, end=end)
        result = step.result
        return KernelObservation(
            done=step.done,
            reward=step.reward,
            messages=[] if step.done else session.messages,
            feedback=step.feedback,
            status=step.status,
            correct=result and result["correct"],
            speedup=result and result["speedup"],
            verdict=result and result["verdict"],
            stop_reason=step.stop_reason and str(step.stop_reason),
            url=result and result["url"],
        )

    @property
    def state(self) -> State:
        """Number of answers so far, the rewards, and the ids of stored trajectories."""
        session = self._session
        if session is None:
            return State(episode_id=self._episode)
        return State(
            episode_id=self._episode,
            step_count=len(session.steps),
            rewards=session.rewards,
            trajectory_ids=[str(each) for each in session.trajectory_ids],
        )

    def close(self) -> None:
        """End a session that was left, and store its turns."""
        if self._session is not None:
            self._session.end()

    def _going(self) -> KernelSession:
        if self._session is None:
            raise RequestError("expected reset before step")
        return self._session

    def _row(self, seed: int | None) -> Mapping[str, Any]:
        if not self._rows:
            raise RequestError(
                "reset: expected reference or problem_id, got neither, and the server has no"
                " problems"
            )
        return self._rows[(next(self._turn) if seed is None else seed) % len(self._rows)]


def application(
    spec: Mapping[str, Any] | None = None,
    *,
    url: str | None = None,
    run: str | None = None,
    model: str | None = None,
    problems: str | Path | Sequence[Mapping[str, Any]] = (),
    deadline_s: float = DEADLINE_S,
    concurrent: int = CONCURRENT,
) -> Any:
    """The server, for uvicorn.

    `spec`: keys of a collection's specification; `problems`: rows with `reference` (or
    `reference_code`), `problem_id`, `entry_point` and `backend`, on top or in a table as exported
    prompts have them, or the path of such rows as JSON lines; `run` and `model` name the
    training.  Raises RequestError.
    """
    as_spec(spec)
    rows = problems if not isinstance(problems, (str, Path)) else _read(Path(problems))
    told = {name: value for name, value in (("run", run), ("model", model)) if value is not None}
    turn = itertools.count()
    made = partial(
        KernelEnvironment, spec, url=url, told=told, rows=rows, turn=turn, deadline_s=deadline_s
    )
    return create_app(
        made,
        KernelAction,
        KernelObservation,
        env_name="kernel_assay",
        max_concurrent_envs=concurrent,
    )


def _read(path: Path) -> list[dict[str, Any]]:
    with path.open() as lines:
        return [json.loads(line) for line in lines if line.strip()]
