"""COLLECT: from a specification to rows.  Everything that can be wrong is found
before anything is stored or spent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn
from uuid import UUID

from celery import Celery

from app.collect import send
from app.domain.collection import feedback, texts
from app.domain.collection.budgets import Amounts, Fit, fits, maximum
from app.domain.collection.call import EndpointConfig, ModelRequest
from app.domain.collection.spec import MOST_ROLLOUTS, CollectionSpec
from app.domain.request import ConflictError, RequestError
from app.domain.trajectory import Run
from app.endpoints import dialects
from app.store.collection import endpoints, lifecycle, prompt_templates, selection, trees, workers
from app.store.collection.trees import Due
from app.store.postgres.database import Connection, Database
from app.store.trajectory import trajectories


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that a collection would be made of."""

    problem_ids: Sequence[UUID]
    prompts: dict[str, str]
    endpoints: Sequence[EndpointConfig]

    def rollouts(self, spec: CollectionSpec) -> int:
        """Rollouts in all."""
        return len(self.problem_ids) * spec.rollouts_per_problem


def plan(connection: Connection, spec: CollectionSpec) -> Plan:
    """Check that everything a specification names is stored.  Raises RequestError
    that names the missing items.
    """
    if spec.problems.files:
        raise RequestError(
            "problems.files: expected files to be stored by the client, which gives ids; got paths"
        )
    feedback.known(spec.prompts.feedback_version)
    configs = [endpoints.get(connection, name) for name in spec.models]
    for config in configs:
        _check(spec, config)
        _check_request(spec, config)
        _check_room(spec, config)
        _check_key(connection, config)
    used = {
        kind: prompt_templates.find(connection, ref, kind) for kind, ref in texts.refs(spec).items()
    }
    planned = Plan(
        problem_ids=selection.select(connection, spec.problems),
        prompts={kind: f"{template.name}@{template.sha256}" for kind, template in used.items()},
        endpoints=configs,
    )
    if not planned.problem_ids:
        raise RequestError("problems: expected at least one that meets every condition, got none")
    if planned.rollouts(spec) > MOST_ROLLOUTS:
        raise RequestError(
            f"problems: expected at most {MOST_ROLLOUTS} rollouts, got {planned.rollouts(spec)}"
        )
    return planned


def outline(connection: Connection, spec: CollectionSpec) -> dict[str, Any]:
    """The size of a collection that is not started.  Raises RequestError."""
    planned = plan(connection, spec)
    return {
        "name": spec.name,
        "problems": len(planned.problem_ids),
        "sources": selection.sources(connection, planned.problem_ids),
        "rollouts": planned.rollouts(spec),
        "attempts_each": spec.most_attempts,
        "endpoints": [config.name for config in planned.endpoints],
        "prompts": planned.prompts,
        "spec_sha256": spec.sha256,
    }


def start(
    database: Database, broker: Celery, spec: CollectionSpec, *, user_id: UUID | None = None
) -> UUID:
    """Store a collection and send its first decisions; returns its id.  If it exists with the same
    specification, returns that one.  Raises RequestError, and ConflictError for a name with another
    specification, before anything is stored.
    """
    with database.begin() as connection:
        known = lifecycle.named(connection, spec.name)
        if known is not None:
            if known.spec.sha256 != spec.sha256:
                raise ConflictError(
                    f"name: expected a new one, got {spec.name!r} of a collection of another"
                    " specification"
                )
            return known.collection_id
        planned = plan(connection, spec)
        version = feedback.known(spec.prompts.feedback_version)
        settings: dict[str, object] = {
            "collection": spec.sha256,
            "feedback": f"{version.name}@{version.sha256}",
        }
        run = Run(name=spec.name, model=planned.endpoints[0].model, settings=settings)
        collection_id = lifecycle.add(
            connection,
            spec,
            run_id=trajectories.add_run(connection, run),
            problem_ids=planned.problem_ids,
            prompts=planned.prompts,
            user_id=user_id,
        )
        due = trees.send_missed(connection, spec.endpoint, planned.rollouts(spec))
    send.decisions(broker, [Due(row_id=each, endpoint=spec.endpoint) for each in due])
    return collection_id


def _check_key(connection: Connection, config: EndpointConfig) -> None:
    """The key is in the environment of workers; where all that are alive lack it,
    nothing could be collected.
    """
    alive = workers.online(connection, config.name)
    if alive and not any(each.has_key for each in alive):
        raise RequestError(
            f"endpoint {config.name!r}: expected its key in the environment variable"
            f" {config.key_env} of its worker, which is not set"
        )


def _check_request(spec: CollectionSpec, config: EndpointConfig) -> None:
    """The endpoint's dialect can express the settings of every call."""
    sampling = spec.sampling
    asked = ModelRequest(
        model=config.model,
        messages=(),
        max_tokens=1,
        top_k=sampling.top_k,
        stop=sampling.stop,
        extra=sampling.extra,
    )
    try:
        dialects.find(config.dialect).build(asked, config)
    except RequestError as error:
        message = str(error)
        raise RequestError(
            message if message.startswith("sampling") else f"sampling.{message}"
        ) from error


def _check_room(spec: CollectionSpec, config: EndpointConfig) -> None:
    """Every budget has room for the maximum of one attempt, which is reserved before its call; the
    prompt comes on top.
    """
    asked = ModelRequest(
        model="", messages=(), max_tokens=spec.longest_answer(config.max_output_tokens)
    )
    most = maximum(config, asked, deadline_s=spec.job_options.deadline_s)
    budgets = spec.budgets
    for level, caps in (("collection", budgets.collection), ("rollout", budgets.rollout)):
        fit, what = fits(caps, Amounts(), Amounts(), most)
        if fit is not Fit.YES:
            _too_small(
                f"budgets.{level}.{what}",
                getattr(most, what),
                getattr(caps, what),
                _SET_BY.get(what),
            )
    if budgets.call.usd is not None and most.usd > budgets.call.usd:
        _too_small("budgets.call.usd", most.usd, budgets.call.usd, _SET_BY["usd"])


_SET_BY = {
    "tokens": "sampling.max_tokens",
    "usd": "sampling.max_tokens and prices",
    "gpu_s": "options.deadline_s",
}
"""Quantity → setting that decides the most that one attempt may take of it."""


def _too_small(key: str, most: float, cap: float, set_by: str | None) -> NoReturn:
    reason = f" ({set_by})" if set_by else ""
    raise RequestError(
        f"{key}: expected at least the {most:g} that one attempt may take{reason}, got {cap:g}"
    )


def _check(spec: CollectionSpec, config: EndpointConfig) -> None:
    budgets = spec.budgets
    has_prices = config.prices.input is not None and config.prices.output is not None
    if not has_prices and any(
        caps.usd is not None for caps in (budgets.collection, budgets.rollout, budgets.call)
    ):
        raise RequestError(
            f"endpoint {config.name!r}: expected prices of input and output for a budget in usd,"
            " got none"
        )
    tokens, context = spec.sampling.max_tokens, config.context_tokens
    if context is not None and tokens >= context:
        raise RequestError(
            f"sampling.max_tokens: expected less than the {context} tokens of endpoint"
            f" {config.name!r}, got {tokens}"
        )
