"""ENQUEUE: TRL's `rollout_func`: dialogues of several turns with the evaluator.

    from app.integrations.trl_rollout import KernelRollouts, turn_sum
    from workers.training.trl_trainer import TurnCreditTrainer

    spec = {"strategy": {"turns": 3}, "device_class": "h200"}
    rollouts = KernelRollouts(references, spec, run="trloo-1")
    trainer = TurnCreditTrainer(
        model,
        method="trloo",
        rollout_func=rollouts,
        reward_funcs=turn_sum,
        train_dataset=Dataset.from_list(rollouts.rows()),
    )

A row of the trainer is a whole trajectory: answers with `env_mask` 1, prompts of later turns
with 0.  TRL's own GRPOTrainer sees the sum of the turns' rewards; the subclass gives each turn
its own credit.  A trajectory that an infrastructure fault cut has no reward: TRL leaves it out
of the mean, and its advantage is 0.

With vLLM in server mode use one process of the trainer: the number of calls differs
between processes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.client import Answer, KernelSession, answer_all
from app.client.session import DEADLINE_S
from app.domain import ids
from app.domain.collection.call import End
from app.domain.request import RequestError
from app.domain.rollout import Place
from app.integrations import sessions

Ids = list[int]
Generate = Callable[[list[Ids], Any], tuple[list[Ids], list[list[float]] | None]]
"""Prompts and the trainer → answers, and their log-probabilities where they are known."""

_DUMMY = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]


def generated(prompts: list[Ids], trainer: Any) -> tuple[list[Ids], list[list[float]] | None]:
    """Answers of the trainer's own engine: vLLM, or the model itself."""
    answers, logprobs = trainer._generate_single_turn(prompts, None, {}, 1)
    return answers, logprobs


def turn_sum(turn_rewards: Sequence[Sequence[float | None]], **_: Any) -> list[float | None]:
    """Reward function: the sum over the turns of a trajectory; None where one of
    them is missing.
    """
    return [None if None in rewards else sum(rewards) for rewards in turn_rewards]  # type: ignore[arg-type]


class KernelRollouts:
    """The function for a trainer's `rollout_func`.

    `problems`: references, or rows with `reference` (or `reference_code`), `problem_id`,
    `entry_point` and `backend`. `spec`: keys of a collection's specification.  `generate`: in
    place of the trainer's engine.  Raises RequestError for a context that rewrites earlier
    turns, which one row cannot hold.
    """

    def __init__(
        self,
        problems: Iterable[str | Mapping[str, Any]],
        spec: Mapping[str, Any] | None = None,
        *,
        url: str | None = None,
        run: str | None = None,
        model: str | None = None,
        deadline_s: float = DEADLINE_S,
        generate: Generate = generated,
    ) -> None:
        self._spec, self._url, self._deadline_s, self._generate = spec, url, deadline_s, generate
        self._place = Place(run=run, model=model)
        self._rows = {}
        for given in problems:
            row = {"reference": given} if isinstance(given, str) else dict(given)
            self._rows[_key(self._open(row, Place(run=run), store=False).messages)] = row

    def rows(self) -> list[dict[str, Any]]:
        """Rows of the data set: the prompt of each problem."""
        return [{"prompt": json.loads(key)} for key in self._rows]

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        """Play one dialogue for every prompt; the fields that TRL expects, and `turn_rewards`."""
        step = int(trainer.state.global_step)
        seen: dict[str, int] = {}
        lines = []
        for prompt in prompts:
            key = _key(prompt)
            if key not in self._rows:
                raise RequestError("prompt: expected one of rows(), got another one")
            seen[key] = seen.get(key, -1) + 1
            group = ids.sha256(key.encode())[:12]
            place = Place(
                run=self._place.run,
                model=self._place.model,
                step=step,
                group=group,
                sample=seen[key],
            )
            session = self._open(self._rows[key], place)
            lines.append(_Line(session=session, prompt=_rendered(trainer, session.messages)))
        while going := [line for line in lines if not line.session.done]:
            self._turn(going, trainer)
        return {
            "prompt_ids": [line.prompt for line in lines],
            "completion_ids": [line.ids for line in lines],
            "logprobs": (
                None
                if any(line.logprobs is None for line in lines)
                else [line.logprobs for line in lines]
            ),
            "env_mask": [line.mask for line in lines],
            "turn_rewards": [_rewards(line.session) for line in lines],
            "stop_reasons": [str(line.session.stop_reason) for line in lines],
        }

    def _turn(self, lines: Sequence[_Line], trainer: Any) -> None:
        """One more turn of every dialogue that goes on."""
        tokenizer = trainer.processing_class
        for line in lines:
            if line.ids:
                line.hear(_continued(trainer, line))
        said, logprobs = self._generate([[*line.prompt, *line.ids] for line in lines], trainer)
        if not all(said):
            raise ValueError(
                "answers: expected a token at least in each, the end if no other, got an empty one"
            )
        answers = []
        for place, line in enumerate(lines):
            tokens = (len(line.prompt) + len(line.ids), len(said[place]))
            line.say(said[place], None if logprobs is None else logprobs[place])
            cut = not said[place] or said[place][-1] != tokenizer.eos_token_id
            text = tokenizer.decode(said[place], skip_special_tokens=True)
            end = End.LENGTH if cut else End.STOP
            answers.append(Answer(session=line.session, text=text, end=end, tokens=tokens))
        answer_all(answers, deadline_s=self._deadline_s)

    def _open(self, row: Mapping[str, Any], place: Place, *, store: bool = True) -> KernelSession:
        session = sessions.opened(
            "trl",
            row,
            self._spec,
            url=self._url,
            place=place,
            deadline_s=self._deadline_s,
            store=store,
        )
        sessions.check_grows(session.spec)
        return session


@dataclass
class _Line:
    """One trajectory: tokens behind the first prompt."""

    session: KernelSession
    prompt: Ids
    ids: Ids = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] | None = field(default_factory=list)

    def hear(self, new: Ids) -> None:
        """Tokens that the model did not write."""
        self.ids += new
        self.mask += [0] * len(new)
        if self.logprobs is not None:
            self.logprobs += [0.0] * len(new)

    def say(self, new: Ids, logprobs: Sequence[float] | None) -> None:
        """Tokens of an answer."""
        self.ids += new
        self.mask += [1] * len(new)
        self.logprobs = (
            None if logprobs is None or self.logprobs is None else [*self.logprobs, *logprobs]
        )


def _rewards(session: KernelSession) -> list[float | None]:
    """One a turn; none at all where the end says nothing about the model: the
    trajectory belongs to no group.
    """
    return [None if session.unfinished else reward for reward in session.rewards]


def _key(messages: Sequence[Mapping[str, str]]) -> str:
    return json.dumps([{"role": each["role"], "content": each["content"]} for each in messages])


def _rendered(trainer: Any, messages: Sequence[Mapping[str, str]], *, prompt: bool = True) -> Ids:
    found = trainer.processing_class.apply_chat_template(
        list(messages),
        add_generation_prompt=prompt,
        tokenize=True,
        return_dict=False,
        chat_template=getattr(trainer, "chat_template", None),
        **(getattr(trainer, "chat_template_kwargs", None) or {}),
    )
    return list(found)


def _continued(trainer: Any, line: _Line) -> Ids:
    """Tokens between an answer and the next one: the end of the answer where it
    lacks one, feedback, opening.

    They are rendered behind a short dialogue of the same roles, so that the answer's
    own tokens stay as they came.
    """
    eos = trainer.processing_class.eos_token_id
    before = _rendered(trainer, _DUMMY, prompt=False)
    if eos in before:
        before = before[: len(before) - before[::-1].index(eos)]
    whole = _rendered(trainer, [*_DUMMY, line.session.messages[-1]])
    if whole[: len(before)] != before:
        raise ValueError("chat template: expected one that leaves earlier messages as they are")
    return [*([] if line.ids[-1] == eos else [eos]), *whole[len(before) :]]
