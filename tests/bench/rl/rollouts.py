"""Dialogues of the policy with the evaluator: prompts, answers, feedback and rewards
as in a collection.

Each is an app.domain.collection.dialogue.Dialogue.  The policy reads what the grammar's vocabulary
can say of an outcome (status, speedup, coverage) in place of the feedback's words.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from operator import itemgetter
from threading import Lock
from typing import TYPE_CHECKING, Protocol

import torch

from app.domain.collection import templates, texts
from app.domain.collection.call import ModelAnswer
from app.domain.collection.dialogue import Dialogue
from app.domain.collection.spec import CollectionSpec
from app.domain.collection.spec import parse as parse_spec
from app.domain.collection.tree import AttemptResult
from app.domain.problem import Problem
from app.domain.request import Request
from app.domain.result import Result
from tests.bench.rl.evaluations import ASSAY, Asked, Evaluations, Key, evaluated, key_of
from tests.bench.rl.grammar import Choices, Grammar
from tests.bench.rl.policy import Policy, Vocabulary

if TYPE_CHECKING:
    from tests.bench.gpu_fleet import Fleet


class Evaluator(Protocol):
    """Source of results."""

    @property
    def backlog(self) -> int:
        """Evaluations that keep it busy while the policy writes the next answers."""

    def submit(self, request: Request) -> Future[Result]:
        """The result of a request, once there is one."""

    def undisturbed(self) -> AbstractContextManager[None]:
        """Time in which the policy may use the device: nothing is timed there."""


class Drawn:
    """Stored real evaluations: each request draws one of its candidate's, anew."""

    def __init__(self, stored: Evaluations, checks: str, seed: int) -> None:
        self._stored, self._checks, self._dice = stored, checks, random.Random(seed)

    @property
    def backlog(self) -> int:
        """See Evaluator."""
        return 0

    def submit(self, request: Request) -> Future[Result]:
        """See Evaluator.  Raises KeyError for a candidate that was never evaluated."""
        found: Future[Result] = Future()
        found.set_result(self._stored.draw(_key(request), self._checks, self._dice))
        return found

    def undisturbed(self) -> AbstractContextManager[None]:
        """See Evaluator."""
        return nullcontext()


class Live:
    """Real evaluations, one for each answer, in as many threads as the fleet has slots."""

    def __init__(self, fleet: Fleet, stored: Evaluations) -> None:
        self.fleet, self.stored = fleet, stored
        self.spans: list[tuple[float, float]] = []
        """Begin and end of each evaluation (time.perf_counter)."""
        self._pool = ThreadPoolExecutor(fleet.slots)
        self._storing = Lock()

    @property
    def backlog(self) -> int:
        """See Evaluator.  Half as many as slots wait for a slot, which one that
        becomes free takes at once.
        """
        return self.fleet.slots + self.fleet.slots // 2

    def submit(self, request: Request) -> Future[Result]:
        """See Evaluator."""
        return self._pool.submit(self._evaluated, as_asked(request))

    def undisturbed(self) -> AbstractContextManager[None]:
        """See Evaluator."""
        return self.fleet.host.device_lock.shared()

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()

    def _evaluated(self, asked: Asked) -> Result:
        began = time.perf_counter()
        found = evaluated(self.fleet, asked)
        with self._storing:
            self.stored.add(asked.problem, asked.candidate, ASSAY, found.result, **found.more)
            self.spans.append((began, time.perf_counter()))
        return found.result


def covered_s(spans: Sequence[tuple[float, float]]) -> float:
    """Seconds in which at least one of the spans runs."""
    total, until = 0.0, -math.inf
    for began, ended in sorted(spans):
        total += max(0.0, ended - max(began, until))
        until = max(until, ended)
    return total


def _key(request: Request) -> Key:
    return key_of(request.problem.name, request.candidate or b"")


def as_asked(request: Request) -> Asked:
    """The evaluation that a request is for."""
    return Asked(
        problem=request.problem.name,
        reference=request.problem.reference,
        candidate=request.candidate or b"",
        options=request.options,
        backend=request.backend,
    )


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Everything that rollouts of one training have in common."""

    grammar: Grammar
    vocabulary: Vocabulary
    spec: CollectionSpec

    def problem(self, name: str) -> Problem:
        """A problem of the grammar."""
        return Problem(
            name=name, reference=self.grammar.reference(name).encode(), source_set="rl_proof"
        )


def setting(
    grammar: Grammar, *, turns: int, reward: str, device_class: str, budget_s: float
) -> Setting:
    """Dialogues of Dr. Kernel's control flow: so many turns, without an early end."""
    spec = parse_spec(
        {
            "name": "rl_proof",
            "endpoint": "policy",
            "problems": {"names": ["*"]},
            "strategy": {"name": "sequential", "turns": turns},
            "device_class": device_class,
            "reward": reward,
            "options": {"timing_budget_s": budget_s, "call_timeout_s": 15.0, "deadline_s": 60.0},
        }
    )
    return Setting(grammar=grammar, vocabulary=Vocabulary(grammar, turns), spec=spec)


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One turn as it came out."""

    choices: Choices
    """The kernel after the answer."""
    key: Key
    job_id: str
    """Id of the evaluation's job."""
    outcome: AttemptResult


@dataclass(frozen=True, kw_only=True)
class Rollouts:
    """Trajectories of one policy version."""

    rows: torch.Tensor
    """(trajectories, length): tokens."""
    log_prob: torch.Tensor
    """(trajectories, turns, slots): of the rollout engine."""
    problems: tuple[str, ...]
    """One a trajectory."""
    attempts: tuple[tuple[Attempt, ...], ...]
    """Turns of each trajectory; fewer where the evaluator has failed."""


def sample(
    policy: Policy,
    setting: Setting,
    evaluator: Evaluator,
    *,
    samples: int,
    generator: torch.Generator,
) -> Rollouts:
    """`samples` trajectories for each problem.  `policy` is the rollout engine's copy.

    No trajectory waits for the others of its turn.  Answers are written together while the
    evaluator has a backlog: each writing takes the device from the timers, which one for every
    evaluated answer would do all the time.
    """
    playing = _Playing(policy, setting, evaluator, samples=samples, generator=generator)
    ready, waiting = list(range(len(playing.problems))), dict[Future[Result], int]()
    while ready or waiting:
        if ready and len(waiting) <= evaluator.backlog:
            waiting |= playing.answered(ready)
            ready = []
        done = wait(waiting, return_when=FIRST_COMPLETED).done
        heard = sorted(((waiting.pop(each), each.result()) for each in done), key=itemgetter(0))
        ready += [number for number, result in heard if playing.goes_on(number, result)]
    return playing.rollouts()


class _Playing:
    """Trajectories in progress, by number."""

    def __init__(
        self,
        policy: Policy,
        setting: Setting,
        evaluator: Evaluator,
        *,
        samples: int,
        generator: torch.Generator,
    ) -> None:
        self.problems = [name for name in setting.grammar.sizes.problems for _ in range(samples)]
        self._policy, self._setting, self._evaluator, self._generator = (
            policy,
            setting,
            evaluator,
            generator,
        )
        self._dialogues = _opened(setting, self.problems)
        self._kernels = [setting.grammar.base] * len(self.problems)
        self._keys: dict[int, Key] = {}
        self._attempts: list[list[Attempt]] = [[] for _ in self.problems]
        vocabulary, device = setting.vocabulary, policy.allowed.device
        self._rows = torch.zeros(
            len(self.problems), vocabulary.length, dtype=torch.long, device=device
        )
        firsts = [vocabulary.ids[f"problem {name}"] for name in self.problems]
        self._rows[:, 0] = torch.tensor(firsts, device=device)
        self._log_probs = torch.zeros(
            len(self.problems), vocabulary.turns, vocabulary.slots, device=device
        )

    def answered(self, numbers: Sequence[int]) -> dict[Future[Result], int]:
        """Write the next answers of these trajectories, and submit them."""
        by_turn: dict[int, list[int]] = {}
        for number in numbers:
            by_turn.setdefault(len(self._attempts[number]), []).append(number)
        if by_turn:
            with self._evaluator.undisturbed():
                for turn, each in by_turn.items():
                    self._write(turn, each)
        return {self._evaluator.submit(self._request(number)): number for number in numbers}

    @torch.no_grad()
    def _write(self, turn: int, numbers: list[int]) -> None:
        """Sample the answers of one turn, and edit the kernels by them."""
        vocabulary, grammar = self._setting.vocabulary, self._setting.grammar
        at = torch.tensor(numbers, device=self._rows.device)
        rows = self._rows[at]
        for slot in range(vocabulary.slots):
            place = vocabulary.place(turn, slot)
            found = self._policy.log_probs(self._policy(rows[:, :place])[:, -1:], place - 1)[:, 0]
            chosen = torch.multinomial(found.exp(), 1, generator=self._generator)
            rows[:, place] = chosen[:, 0]
            self._log_probs[at, turn, slot] = found.gather(1, chosen)[:, 0]
        self._rows[at] = rows
        first = vocabulary.place(turn, 0)
        tokens = rows[:, first : first + vocabulary.slots].tolist()
        for number, each in zip(numbers, tokens, strict=True):
            self._kernels[number] = grammar.edited(self._kernels[number], vocabulary.choices(each))

    def _request(self, number: int) -> Request:
        source = self._setting.grammar.source(self.problems[number], self._kernels[number])
        request = self._dialogues[number].read(ModelAnswer(text=f"```python\n{source}```\n"))
        assert request is not None, "the grammar writes code"
        self._keys[number] = _key(request)
        return request

    def goes_on(self, number: int, result: Result) -> bool:
        """Tell a trajectory its result; False where it ends."""
        dialogue, vocabulary = self._dialogues[number], self._setting.vocabulary
        outcome = dialogue.judge(result).outcome
        attempts = self._attempts[number]
        attempts.append(
            Attempt(
                choices=self._kernels[number],
                key=self._keys[number],
                job_id=result["job_id"],
                outcome=outcome,
            )
        )
        told = vocabulary.feedback(status_of(outcome), outcome.speedup, outcome.coverage)
        after = vocabulary.place(len(attempts) - 1, vocabulary.slots)
        self._rows[number, after : after + len(told)] = torch.tensor(told, device=self._rows.device)
        return dialogue.stop is None

    def rollouts(self) -> Rollouts:
        """Everything that was said."""
        return Rollouts(
            rows=self._rows,
            log_prob=self._log_probs,
            problems=tuple(self.problems),
            attempts=tuple(tuple(each) for each in self._attempts),
        )


def _opened(setting: Setting, problems: Sequence[str]) -> list[Dialogue]:
    shipped = list(templates.shipped())
    used = {
        kind: templates.choose(shipped, ref, kind) for kind, ref in texts.refs(setting.spec).items()
    }
    by_name = {name: setting.problem(name) for name in set(problems)}
    return [
        Dialogue(setting.spec, by_name[name], used, sample=number)
        for number, name in enumerate(problems)
    ]


_STATUSES: Mapping[str | None, str] = {
    "compile_error": "compile_error",
    "incorrect": "incorrect",
    "no_code": "no_code",
    None: "none",
}


def status_of(outcome: AttemptResult) -> str:
    """An outcome in the vocabulary's words."""
    if outcome.hack:
        return "hack"
    return "correct" if outcome.correct else _STATUSES.get(outcome.status, "error")
