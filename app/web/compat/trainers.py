"""BROWSE: reward URLs of trainers that ask one: OpenRLHF and slime.

    --reward.remote_url http://host:8000/compat/openrlhf/get_reward                      OpenRLHF
    --rm-type remote_rm --rm-url http://host:8000/compat/slime/reward --reward-key score   slime

A label names the problem (app.domain.reward_request).  `?gpu=h200`, `?reward=NAME` and
`?timing_budget_s=0.5` choose device, reward and time; `?run=`, `?model=` and `?step=` say where in
a training the answers belong; a token stands in the URL, `http://user:TOKEN@host:8000/…`.  Both
trainers ask again after an error and take a sample without an answer for missing.  So a sample
without a score is a 503, never a zero, and asking again finds the same job.

Every answer is stored with its prompt as a trajectory of one turn (`app.domain.rollout`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, TypeVar

import flask
import msgspec

from app.domain import freeform, reward, reward_request
from app.domain.job import REWARD_BUDGET_S, JobOptions
from app.domain.request import RequestError
from app.domain.rollout import Rollout, messages_of, problem_of
from app.domain.source import source_text
from app.domain.verdict import Label
from app.store.queue import devices
from app.web import errors, request_context
from app.web.api import evaluations, rollouts
from app.web.api.endpoint import refuse
from app.web.body_limits import large
from app.web.compat import device_choice
from app.web.converted import converted
from app.web.identity import requires
from app.web.query_parameters import reads

blueprint = flask.Blueprint("trainers", __name__, url_prefix="/compat")

OPENRLHF_HOLD_S = 165.0
"""Seconds to hold a request: OpenRLHF gives up after 180 s, five times."""
SLIME_HOLD_S = 105.0
"""Seconds to hold a request: slime gives up after 120 s, ten times."""
RETRY_S = 5
"""Seconds after which a trainer is told to ask again."""
MOST = 1_000
"""Answers in one request."""
ARGUMENTS = ("gpu", "reward", "timing_budget_s", *reward_request.PLACE)
"""Query parameters of a trainer's URL."""

T = TypeVar("T")
Result = dict[str, Any]


class Asked(msgspec.Struct, kw_only=True):
    """Request body of OpenRLHF: texts that begin with their prompts, and labels."""

    query: list[str]
    prompts: list[str]
    labels: list[Any]


class Sample(msgspec.Struct, kw_only=True):
    """Request body of slime."""

    response: str
    label: Any
    prompt: Any = None


@blueprint.errorhandler(RequestError)
@blueprint.errorhandler(reward.UnknownRewardError)
def _bad(error: ValueError) -> flask.Response:
    return errors.as_json(400, "bad_request", str(error))


@blueprint.post("/openrlhf/get_reward")
@requires("submit")
@large
@reads(*ARGUMENTS)
def openrlhf() -> flask.Response:
    """Rewards, correctness as the 0-to-1 score of its dynamic filter, and numbers for its log."""
    asked = _read(Asked)
    if not len(asked.query) == len(asked.prompts) == len(asked.labels) <= MOST:
        lengths = f"{len(asked.query)}, {len(asked.prompts)} and {len(asked.labels)}"
        raise RequestError(
            f"expected as many queries as prompts and labels, {MOST} at most, got {lengths}"
        )
    answers = [
        reward_request.answer_in(query, prompt)
        for query, prompt in zip(asked.query, asked.prompts, strict=True)
    ]
    rewards, results = _scored("openrlhf", answers, asked.prompts, asked.labels, OPENRLHF_HOLD_S)
    logs = {
        "speedup": [result["speedup"] or 0.0 for result in results],
        "compiled": [float(result["compiled"]) for result in results],
        "hack": [_hack(result) for result in results],
    }
    scores = [float(result["correct"] and not _hack(result)) for result in results]
    return flask.jsonify(rewards=rewards, scores=scores, extra_logs=logs)


@blueprint.post("/slime/reward")
@requires("submit")
@large
@reads(*ARGUMENTS)
def slime() -> flask.Response:
    """One score, with its components."""
    sample = _read(Sample)
    (score,), (result,) = _scored(
        "slime", [sample.response], [sample.prompt], [sample.label], SLIME_HOLD_S
    )
    names = ("status", "compiled", "correct", "speedup", "coverage_time", "verdict", "url")
    return flask.jsonify(score=score, **{name: result[name] for name in names})


def _read(kind: type[T]) -> T:
    try:
        return converted(freeform.load(flask.request.get_data()), kind)
    except msgspec.ValidationError as error:
        raise RequestError(f"body: {error}") from error


def _scored(
    trainer: str,
    answers: Sequence[str],
    prompts: Sequence[Any],
    labels: Sequence[Any],
    hold_s: float,
) -> tuple[list[float], list[Result]]:
    """Scores and results, in order.  Ends the request with 503 where one is missing."""
    until = time.monotonic() + hold_s
    name = request_context.argument("reward") or request_context.settings().reward
    reward.parse(name)
    told = _rollouts(trainer, answers, prompts, [reward_request.label(text) for text in labels])
    job_ids = rollouts.accept(told)
    for job_id in job_ids:
        request_context.watch().over(job_id, until - time.monotonic())
    results: list[Result] = [dict(evaluations.result_of(job_id)) for job_id in job_ids]
    scores = [reward.score(name, result) for result in results]
    known = [score for score in scores if score is not None]
    if len(known) < len(scores):
        without = next(
            result for result, score in zip(results, scores, strict=True) if score is None
        )
        refuse(
            503,
            "no_score",
            f"expected {len(scores)} scores, got {len(known)}: job {without['job_id']} is"
            f" {without['state']}, {errors.said(without['error']) or 'without an error so far'}",
            retry_after_s=RETRY_S,
        )
    return known, results


def _rollouts(
    trainer: str,
    answers: Sequence[str],
    prompts: Sequence[Any],
    labels: Sequence[reward_request.Label],
) -> list[Rollout]:
    """The prompt of a label is the one that was exported, and goes before the text
    that the trainer made of it.
    """
    with request_context.database().begin() as connection:
        listed = devices.listed(connection)
    told = reward_request.place(
        {name: request_context.argument(name) or None for name in reward_request.PLACE}, "query"
    )
    options, found = _options(), []
    for answer, prompt, label in zip(answers, prompts, labels, strict=True):
        device_class, device = device_choice.choose(
            listed, label.gpu or request_context.argument("gpu") or None, "gpu"
        )
        place = label.place.or_else(told)
        found.append(
            Rollout(
                answer=answer,
                candidate=source_text.encode(reward_request.candidate(answer)),
                run=place.campaign(trainer),
                problem_id=label.problem_id,
                problem=problem_of(label.reference, label.entry_point),
                messages=messages_of(label.prompt or prompt),
                backend=label.backend,
                device_class=device_class,
                device=device,
                label=place.label,
                claims={"prompt": prompt} if label.prompt is not None and prompt else {},
                options=options,
                repeatable=True,
            )
        )
    return found


def _options() -> JobOptions:
    budget = request_context.argument("timing_budget_s")
    try:
        seconds = float(budget) if budget else REWARD_BUDGET_S
    except ValueError:
        raise RequestError(f"timing_budget_s: expected seconds, got {budget!r}") from None
    try:
        return JobOptions(timing_budget_s=seconds)
    except ValueError as error:
        raise RequestError(str(error)) from error


def _hack(result: Result) -> float:
    return float(result["verdict"] == Label.HACK)
