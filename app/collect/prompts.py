"""COLLECT: stored messages of an attempt: the opening of its problem, and the
attempts that its prompt shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.collect import row_cache
from app.domain.collection import texts
from app.domain.collection.spec import CollectionSpec
from app.domain.collection.templates import FEEDBACK
from app.domain.collection.tree import Generate
from app.domain.problem import Problem
from app.domain.result import Result
from app.store.collection.trees import AttemptNode
from app.store.postgres.database import Connection


def opening(
    connection: Connection, spec: CollectionSpec, prompts: Mapping[str, str], problem: Problem
) -> list[bytes]:
    """Keys of the messages with which every conversation on the problem begins."""
    used = {kind: row_cache.template(connection, ref, kind) for kind, ref in prompts.items()}
    return row_cache.keep(connection, texts.opening(spec, used, problem))


def conversation(
    each: Generate, attempts: Mapping[str, AttemptNode], begin: Sequence[bytes]
) -> list[bytes]:
    """Keys of all messages of an attempt, in the order in which they are sent."""
    shown = [key for name in each.shown for key in (attempts[name].answer, attempts[name].feedback)]
    return [*begin, *(key for key in shown if key is not None)]


def feedback(
    connection: Connection,
    spec: CollectionSpec,
    prompts: Mapping[str, str],
    *,
    turn: int,
    result: Result | None,
    why: str,
) -> bytes:
    """Key of the user message that answers an attempt."""
    template = row_cache.template(connection, prompts[FEEDBACK], FEEDBACK)
    return row_cache.keep(
        connection, [texts.feedback(spec, template, turn=turn, result=result, why=why)]
    )[0]
