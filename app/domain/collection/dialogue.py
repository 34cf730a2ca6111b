"""COLLECT: one rollout with attempts made one at a time, as a state without input or output.

The decisions, texts, outcomes and rewards are those of collections: `decide`, `texts`, `answers`
and `outcomes`.  The caller asks its model with `messages`, gives the answer to `read`, evaluates
the code, gives the result to `judge`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.domain import reward
from app.domain.collection import answers, outcomes, texts
from app.domain.collection.budgets import Amounts, Fit, evaluated, fits, maximum
from app.domain.collection.budgets import spent as spent_by
from app.domain.collection.call import (
    BROKEN_OFF,
    CallError,
    EndpointConfig,
    ModelAnswer,
    ModelRequest,
)
from app.domain.collection.continuation import continues
from app.domain.collection.decide import decide
from app.domain.collection.draws import draws
from app.domain.collection.spec import CollectionSpec
from app.domain.collection.stop_reasons import StopReason
from app.domain.collection.templates import FEEDBACK, Template
from app.domain.collection.tree import AttemptResult, Generate, Node, Stop, Tree
from app.domain.problem import Problem
from app.domain.request import Request, RequestError
from app.domain.result import Result
from app.domain.trajectory import Message, Turn

_POLICY = EndpointConfig(name="policy", base_url="", dialect="", model="")
"""A trainer's policy: without prices and limits of its own."""


@dataclass(frozen=True, kw_only=True)
class EndedAttempt:
    """An attempt that is over."""

    outcome: AttemptResult
    feedback: str | None
    """None with a fault."""
    result: Result | None
    """None without a candidate, and where there is no result."""
    turn: Turn | None
    """The answer with the messages that are new before it; None where no whole answer
    came.
    """


@dataclass(frozen=True, kw_only=True)
class _Said:
    """An answer with an unknown outcome."""

    answer: ModelAnswer
    found: answers.Extracted
    used: Amounts


class Dialogue:
    """A rollout.  `sample`: number among the rollouts of the problem, for seeds.
    `used`: kind → template.

    Raises RequestError for a strategy that makes several attempts at once.
    """

    def __init__(
        self,
        spec: CollectionSpec,
        problem: Problem,
        used: Mapping[str, Template],
        *,
        sample: int = 0,
    ) -> None:
        self.spec, self.problem = spec, problem
        self.stop: Stop | None = None
        """The end; None while there is an attempt to make."""
        self._feedback = used[FEEDBACK]
        self._begin = texts.opening(spec, used, problem)
        self._draws = draws(spec.seed, problem.reference_sha256, sample)
        self._tree = Tree()
        self._spent = Amounts()
        self._shown: dict[str, tuple[Message, Message]] = {}
        """Key of an attempt → its answer and its feedback as later prompts show them."""
        self._next: Generate | None = None
        self._sent: tuple[Message, ...] = ()
        self._said: _Said | None = None
        self._decide()

    @property
    def messages(self) -> tuple[Message, ...]:
        """The prompt of the attempt that is to be made.  Raises RequestError after the end."""
        return self._prompt(self._attempt)

    @property
    def continues(self) -> bool:
        """True if that prompt is the previous one with the previous answer and feedback added."""
        return continues(self._attempt, self._tree, ())

    @property
    def seed(self) -> int:
        """Seed of the model call that is to be made."""
        return self._attempt.seed

    def read(self, answer: ModelAnswer) -> Request | None:
        """The evaluation that an answer needs; None where it has no code, or was broken off.
        `judge` follows.
        """
        self._sent = self.messages
        text = "" if answer.end in BROKEN_OFF else answer.text
        found = answers.candidate_of(text, entry_point=self.problem.entry_point, end=answer.end)
        self._said = _Said(answer=answer, found=found, used=spent_by(answer, self._most()))
        return (
            None
            if found.source is None
            else texts.evaluation(self.spec, self.problem, found.source)
        )

    def judge(self, result: Result | None) -> EndedAttempt:
        """The attempt with the result of its evaluation; None without code, and
        where the evaluator has failed.
        """
        assert self._said is not None, "read comes first"
        said, self._said = self._said, None
        if result is not None:
            result = {**result, "score": reward.score(self.spec.reward, result)}
        outcome = self._outcome(said, result)
        self._spent += said.used + (evaluated(result) if result is not None else Amounts())
        attempt = self._attempt
        told = None
        if outcome.fault is None:
            told = texts.feedback(
                self.spec, self._feedback, turn=attempt.turn, result=result, why=said.found.why
            )
            later = texts.shown_later(self.spec, said.answer.text, said.answer.reasoning)
            self._shown[attempt.key] = (later, told)
        turn = None if said.answer.end in BROKEN_OFF else self._turn(said)
        self._end(outcome)
        return EndedAttempt(
            outcome=outcome, feedback=told.content if told else None, result=result, turn=turn
        )

    def fail(self, error: CallError) -> EndedAttempt:
        """The attempt with a model call that has failed for good."""
        outcome = outcomes.failed(error, tokens=0, cost_usd=0.0)
        self._end(outcome)
        return EndedAttempt(outcome=outcome, feedback=None, result=None, turn=None)

    def end(self, reason: StopReason, detail: str = "") -> None:
        """End the rollout without another attempt."""
        self._next, self.stop = None, Stop(reason=reason, detail=detail)

    @property
    def _attempt(self) -> Generate:
        if self._next is None:
            reason = self.stop.reason if self.stop else None
            raise RequestError(f"expected a rollout that goes on, got one that has ended: {reason}")
        return self._next

    def _outcome(self, said: _Said, result: Result | None) -> AttemptResult:
        reward_name, tokens = self.spec.reward, said.used.tokens
        if said.answer.end in BROKEN_OFF:
            return AttemptResult(
                fault=StopReason.ENDPOINT_ERROR, end=said.answer.end, tokens=tokens
            )
        if said.found.source is None:
            return outcomes.without_code(
                end=said.answer.end, scored_by=reward_name, tokens=tokens, cost_usd=0.0
            )
        if result is None:
            return AttemptResult(
                fault=StopReason.EVALUATOR_ERROR, end=said.answer.end, tokens=tokens
            )
        return outcomes.judged(
            result, end=said.answer.end, scored_by=reward_name, tokens=tokens, cost_usd=0.0
        )

    def _turn(self, said: _Said) -> Turn:
        """The turn as a collection stores it: where the conversation goes on, only
        the last message is new.
        """
        return Turn(
            messages=self._sent[-1:] if self.continues else self._sent,
            response=texts.as_turn(said.answer.text, said.answer.reasoning),
            candidate=said.found.source,
        )

    def _end(self, outcome: AttemptResult) -> None:
        attempt = self._attempt
        self._tree = self._tree.with_nodes([Node(**vars(attempt), outcome=outcome)])
        self._next = None
        self._decide()

    def _decide(self) -> None:
        """The next attempt, or the end."""
        decision = decide(self.spec, self._tree, self._spent, self._draws)
        if decision.stop is not None:
            self.stop = decision.stop
            return
        if len(decision.generate) != 1:
            raise RequestError(
                "strategy.name: expected one that makes one attempt at a time, got"
                f" {self.spec.strategy['name']!r}"
            )
        self._next = decision.generate[0]
        fit, quantity = fits(self.spec.budgets.rollout, self._spent, Amounts(), self._most())
        if fit is not Fit.YES:
            self._end(AttemptResult(fault=StopReason.BUDGET, detail=f"rollout: {quantity}"))

    def _prompt(self, attempt: Generate) -> tuple[Message, ...]:
        return (*self._begin, *(message for key in attempt.shown for message in self._shown[key]))

    def _most(self) -> Amounts:
        asked = ModelRequest(
            model="", messages=self.messages, max_tokens=self.spec.longest_answer()
        )
        return maximum(_POLICY, asked, deadline_s=self.spec.job_options.deadline_s)
