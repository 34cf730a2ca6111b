"""ENQUEUE: one dialogue of a model with the evaluator, for trainers and scripts of one's own.

    from app.client import Client, KernelSession

    with Client(url=url, token=token) as client:
        spec = {"strategy": {"turns": 3}, "device_class": "h200"}
        session = KernelSession(client, spec).open(reference)
        while not session.done:
            step = session.answer(model(session.messages))
            print(step.feedback, step.reward, step.stop_reason)

The specification is that of `assay collect` (app.domain.collection.spec), and prompts, feedback,
budgets, stop reasons and rewards are the same texts and numbers as in a collection.  `answer_all`
and `answer_async` serve many at once.

An infrastructure fault ends a session without a reward: `reward` is None, never 0.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

from app.client.submission import Submission, as_problem
from app.domain.collection import spec as specs
from app.domain.collection import templates, texts
from app.domain.collection.call import CallError, End, ErrorKind, ModelAnswer, Usage
from app.domain.collection.dialogue import Dialogue, EndedAttempt
from app.domain.collection.spec import CollectionSpec
from app.domain.collection.stop_reasons import UNFINISHED, StopReason
from app.domain.collection.templates import Template
from app.domain.problem import Problem
from app.domain.request import Request, RequestError, ServiceUnavailableError
from app.domain.result import Result
from app.domain.rollout import UNKNOWN, Place
from app.domain.trajectory import Trajectory, Turn

if TYPE_CHECKING:
    from app.client import Client

DEADLINE_S = 900.0
"""Longest wait for one evaluation, queue included, in seconds."""
CALLS = 64
"""Evaluations for which one process waits at once in `answer_async`; more take their turn."""

_USUAL: Mapping[str, Any] = {
    "name": "session",
    "endpoint": "policy",
    "problems": {"names": ["*"]},
    "strategy": {"name": "sequential"},
}
"""Keys that a collection needs and a session does not."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Step:
    """Outcome of one answer."""

    feedback: str | None
    """The user message that follows the answer; None where an infrastructure fault
    took its place.
    """
    reward: float | None
    """None: no reward, and not the model's fault.  Leave the turn out of every baseline."""
    done: bool
    stop_reason: StopReason | None
    """None while the session goes on."""
    status: str | None
    """Status of the evaluation, or `no_code`."""
    result: Result | None
    """The whole result; None without a candidate."""


class KernelSession:
    """A dialogue on one problem.  Not safe for threads; sessions share a client, which is.

    `spec`: keys of a collection's specification, or a CollectionSpec; name, endpoint and problems
    are not read. `templates`: prompt templates beside those that come with Assay.  `place`: place
    in a training, under which the trajectory is stored at the end (`store=False`: not at all);
    without a name it is a run of the trainer's name and the day.
    Raises RequestError.
    """

    def __init__(
        self,
        client: Client,
        spec: CollectionSpec | Mapping[str, Any] | None = None,
        *,
        templates: Sequence[Template] = (),
        place: Place = UNKNOWN,
        trainer: str = "session",
        store: bool = True,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self.spec = as_spec(spec)
        if self.spec.fresh:
            raise RequestError(
                "fresh: expected false in a session, whose answers are stored by content, got true"
            )
        self.steps: list[Step] = []
        """Outcomes so far, in the order of the turns."""
        self.trajectory_ids: list[UUID] = []
        """Stored trajectories: one, or several where the context does not simply grow."""
        self.deadline_s = deadline_s
        self._client, self._store = client, store
        self._used = _chosen(self.spec, templates)
        self._place = place
        self._run = place.campaign(trainer)
        self._turns: list[tuple[Turn, bool]] = []
        self._dialogue: Dialogue | None = None

    def open(
        self, problem: str | bytes | Problem | UUID, *, entry_point: str | None = None
    ) -> KernelSession:
        """Begin with a reference's source, a problem, or the id of a stored one; the
        session itself.

        `entry_point`: class name of a source.  Raises RequestError, and MissingError
        for an unknown id.
        """
        chosen = (
            self._client.problem(problem)
            if isinstance(problem, UUID)
            else as_problem(problem, entry_point)
        )
        if self._store:
            self._client.add_run(self._run)  # before jobs are submitted under its name
        self._dialogue = Dialogue(self.spec, chosen, self._used, sample=self._place.sample or 0)
        self.steps, self._turns, self.trajectory_ids = [], [], []
        return self

    @property
    def messages(self) -> list[dict[str, str]]:
        """The prompt of the next answer, as `role` and `content`.  Raises
        RequestError after the end.
        """
        return [{"role": each.role, "content": each.content} for each in self._opened.messages]

    @property
    def continues(self) -> bool:
        """True if that prompt is the previous one with answer and feedback added."""
        return self._opened.continues

    @property
    def seed(self) -> int:
        """Sampling seed of the next answer, as a collection would send it."""
        return self._opened.seed

    @property
    def max_tokens(self) -> int:
        """Tokens of an answer at most."""
        return self.spec.longest_answer()

    @property
    def done(self) -> bool:
        """True after the end."""
        return self._opened.stop is not None

    @property
    def stop_reason(self) -> StopReason | None:
        """Reason of the end; None before it."""
        stop = self._opened.stop
        return None if stop is None else stop.reason

    @property
    def rewards(self) -> list[float | None]:
        """Rewards of the turns so far."""
        return [step.reward for step in self.steps]

    @property
    def unfinished(self) -> bool:
        """True if the end says nothing about the model: the session belongs to no group."""
        return self.stop_reason in UNFINISHED

    def answer(
        self,
        text: str | None,
        *,
        reasoning: str | None = None,
        end: End | str = End.STOP,
        tokens: tuple[int, int] | None = None,
    ) -> Step:
        """Give the model's answer, wait for its evaluation, and store the trajectory
        if it is the last one.

        `text`: None for an answer without any, as chat servers have it; `end`: `length` where the
        token limit cut it off; `tokens`: of prompt and answer, for budgets.  Raises RequestError
        and NotAllowedError, which are the configuration's fault.
        """
        said = Answer(session=self, text=text, reasoning=reasoning, end=end, tokens=tokens)
        return answer_all([said], deadline_s=self.deadline_s)[0]

    async def answer_async(self, text: str | None, **more: Any) -> Step:
        """`answer`, without blocking the event loop."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(_threads(os.getpid()), lambda: self.answer(text, **more))

    def overflow(self) -> Step:
        """End the session because its prompt does not fit into the model's context.
        A fault of no one: no reward.
        """
        error = CallError(kind=ErrorKind.CONTEXT_OVERFLOW, message="the prompt does not fit")
        return self._told(self._opened.fail(error))

    def end(self, reason: StopReason = StopReason.STOPPED) -> None:
        """End the session before its time, and store its turns so far."""
        if not self.done:
            self._opened.end(reason)
            self._keep()

    @property
    def _opened(self) -> Dialogue:
        if self._dialogue is None:
            raise RequestError(
                "expected a session that was opened, got a new one: call open(problem) first"
            )
        return self._dialogue

    def _read(self, said: Answer) -> Request | None:
        if said.text is not None and not isinstance(said.text, str):
            raise RequestError(
                f"text: expected text, or None for an answer without any, got {said.text!r:.60}"
            )
        usage = (
            Usage() if said.tokens is None else Usage(input=said.tokens[0], output=said.tokens[1])
        )
        try:
            end = End(said.end)
        except ValueError:
            raise RequestError(f"end: expected one of {', '.join(End)}, got {said.end!r}") from None
        return self._opened.read(
            ModelAnswer(text=said.text or "", reasoning=said.reasoning, end=end, usage=usage)
        )

    def _judge(self, result: Result | None) -> Step:
        follows = self.continues
        attempt = self._opened.judge(result)
        if attempt.turn is not None:
            self._turns.append((attempt.turn, follows))
        return self._told(attempt)

    def _told(self, attempt: EndedAttempt) -> Step:
        outcome = attempt.outcome
        step = Step(
            feedback=attempt.feedback,
            reward=outcome.reward,
            done=self.done,
            stop_reason=self.stop_reason,
            status=outcome.status,
            result=attempt.result,
        )
        self.steps.append(step)
        if self.done:
            self._keep()
        return step

    def _keep(self) -> None:
        """Store the trajectory.  The evaluations are those that there are: equal
        submissions are one job.
        """
        if not self._store or not self._turns:
            return
        lines: list[list[Turn]] = []
        for turn, follows in self._turns:
            if follows and lines:
                lines[-1].append(turn)
            else:
                lines.append([turn])
        try:
            self.trajectory_ids = [self._keep_line(line).trajectory_id for line in lines]
        except ServiceUnavailableError as error:
            _log.error("a trajectory of %d turns was not stored: %s", len(self._turns), error)

    def _keep_line(self, turns: Sequence[Turn]) -> Trajectory:
        problem = self._opened.problem
        request = texts.evaluation(self.spec, problem, "")
        return self._client.submit_trajectory(
            reference=problem,
            turns=turns,
            backend=self.spec.backend,
            gpu=self.spec.device_class,
            run=self._run,
            label=self._place.label,
            workflow=request.workflow,
            **asdict(self.spec.job_options),
        )


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One answer for `answer_all`; the fields are the arguments of `KernelSession.answer`."""

    session: KernelSession
    text: str | None
    reasoning: str | None = None
    end: End | str = End.STOP
    tokens: tuple[int, int] | None = None


def answer_all(given: Iterable[Answer], *, deadline_s: float = DEADLINE_S) -> list[Step]:
    """Give answers to many sessions and wait for all their evaluations, which run
    side by side; in order.

    One session may be there once.  Errors as of `KernelSession.answer`.
    """
    said = list(given)
    if len({id(each.session) for each in said}) < len(said):
        raise RequestError("expected every session once, got one twice")
    requests = [each.session._read(each) for each in said]
    results = _evaluated(said, requests, deadline_s)
    return [each.session._judge(result) for each, result in zip(said, results, strict=True)]


def as_spec(given: CollectionSpec | Mapping[str, Any] | None) -> CollectionSpec:
    """A specification, with the keys filled in that only collections need.  Raises RequestError."""
    if isinstance(given, CollectionSpec):
        return given
    value = {**_USUAL, **(given or {})}
    if isinstance(value["strategy"], Mapping):
        value["strategy"] = {**_USUAL["strategy"], **value["strategy"]}
    return specs.parse(value)


def _evaluated(
    said: Sequence[Answer], requests: Sequence[Request | None], deadline_s: float
) -> list[Result | None]:
    """Results in order; None where there is no code, and where the service could not say."""
    asked = [place for place, request in enumerate(requests) if request is not None]
    found: list[Result | None] = [None] * len(said)
    by_client: dict[int, list[int]] = {}
    for place in asked:
        by_client.setdefault(id(said[place].session._client), []).append(place)
    for places in by_client.values():
        client = said[places[0]].session._client
        submissions = [
            _submission(request, said[place].session)
            for place in places
            if (request := requests[place])
        ]
        try:
            job_ids = [handle.job_id for handle in client.submit_many(submissions)]
            for place, result in zip(places, _ended(client, job_ids, deadline_s), strict=True):
                found[place] = result
        except ServiceUnavailableError as error:
            _log.error("%d answers were not evaluated: %s", len(places), error)
    return found


def _ended(client: Client, job_ids: Sequence[UUID], deadline_s: float) -> list[Result | None]:
    """Results of jobs; None for one that is not over in time."""
    try:
        client.wait(job_ids, timeout_s=deadline_s)
    except TimeoutError as error:
        _log.error("%s", error)
    return list(client.results(job_ids))


def _submission(request: Request, session: KernelSession) -> Submission:
    return Submission(
        reference=request.problem,
        candidate=request.candidate or b"",
        backend=request.backend,
        gpu=request.device_class,
        run=session._run.name if session._store else None,
        workflow=request.workflow,
        options=asdict(request.options),
    )


def _chosen(spec: CollectionSpec, more: Sequence[Template]) -> dict[str, Template]:
    for template in more:
        templates.check(template)
    known = [*more, *templates.shipped()]
    return {kind: templates.choose(known, ref, kind) for kind, ref in texts.refs(spec).items()}


@cache
def _threads(_pid: int) -> ThreadPoolExecutor:
    """A pool of threads for each process: threads do not survive a fork."""
    return ThreadPoolExecutor(CALLS, thread_name_prefix="assay-session")
