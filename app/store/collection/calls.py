"""STORE: calls of models that have begun: their leases, their records, and their ends.

A claim (`claims`) is fenced by its number and its owner: a worker that lost the
lease can store no answer.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import msgspec
import sqlalchemy as sa
import zstandard
from sqlalchemy.dialects.postgresql import ARRAY

from app.domain.collection.budgets import Amounts
from app.domain.collection.call import ErrorKind, ModelAnswer
from app.domain.collection.states import CallState, CollectionState, NodeState
from app.domain.collection.stop_reasons import StopReason
from app.domain.collection.tree import AttemptResult
from app.domain.source import source_text
from app.domain.trajectory import Message
from app.store import tables
from app.store.collection import ledger, messages
from app.store.collection.claims import Claimed
from app.store.collection.lifecycle import NEVER
from app.store.queue.jobs import FUTURE_S

MOST_LOST = 15
"""Calls of one attempt that may be lost with their workers before it fails: a restart loses one
call, and an answer that kills its worker would be repeated for ever.
"""

_n = tables.nodes.c
_k = tables.model_calls.c


@dataclass(frozen=True, kw_only=True)
class Held:
    """A claimed attempt with its row locked again, to store its answer."""

    node_id: UUID
    faults: int
    continues: bool
    parent_turn_id: UUID | None
    run_id: UUID
    prompts: Mapping[str, str]
    tokens: int
    """Tokens of the rollout's earlier calls."""
    cost_usd: float
    stopped: bool
    """The collection was stopped meanwhile."""


@dataclass(frozen=True, kw_only=True)
class Settled:
    """A lost call that is accounted for."""

    rollout_id: UUID
    given_up: bool
    """The attempt is done, and its rollout has to decide; False: the attempt is ready again."""


def extend(
    connection: sa.Connection, owner: str, node_ids: Sequence[UUID], lease_s: float
) -> set[UUID]:
    """Hold a worker's attempts for another `lease_s` seconds; those that it still holds."""
    values = {"owner": owner, "node_ids": list(node_ids), "lease_s": lease_s}
    return set(connection.execute(_EXTEND, values).scalars())


def hold(connection: sa.Connection, claimed: Claimed) -> Held | None:
    """Lock the attempt to store its answer; None where the lease was lost."""
    values = {"node_id": claimed.ready.node_id, "claim": claimed.claim, "owner": claimed.owner}
    row = connection.execute(_HOLD, values).one_or_none()
    if row is None:
        return None
    return Held(
        node_id=row.node_id,
        faults=row.faults,
        continues=row.continues,
        parent_turn_id=row.parent_turn_id,
        run_id=row.run_id,
        prompts=row.prompts,
        tokens=row.tokens,
        cost_usd=float(row.cost_usd),
        stopped=row.state == CollectionState.STOPPED,
    )


def record(connection: sa.Connection, claimed: Claimed, answer: ModelAnswer) -> bytes | None:
    """Store everything about a finished call; returns the hash of the answer's text."""
    texts = [Message(role="assistant", content=answer.text)] if answer.error is None else []
    if answer.reasoning is not None:
        texts.append(Message(role="reasoning", content=answer.reasoning))
    keys = messages.keep(connection, texts)
    error, usage = answer.error, answer.usage
    row = {
        "state": CallState.FAILED if error else CallState.ANSWERED,
        "body_sha256": answer.body_sha256,
        "sent_at": answer.sent_at,
        "first_token_at": answer.first_token_at,
        "last_at": answer.last_at,
        "status": answer.status,
        "error_kind": error and error.kind,
        "error_message": error and source_text.printable(error.message)[:2000],
        "finish_reason": _printable(answer.finish_reason),
        "ending": answer.end,
        "answer": keys[0] if error is None else None,
        "reasoning": keys[-1] if answer.reasoning is not None else None,
        "input_tokens": usage.input,
        "cached_input_tokens": usage.cached_input,
        "output_tokens": usage.output,
        "reasoning_tokens": usage.reasoning,
        "usage_source": usage.source,
        "cost_usd": answer.cost_usd,
        "cost_source": answer.cost_source,
        "prompt_token_ids": packed(answer.prompt_token_ids, "i"),
        "token_ids": packed(answer.token_ids, "i"),
        "logprobs": packed(answer.logprobs, "f"),
        **{name: _printable(getattr(answer, name)) for name in _TOLD},
    }
    connection.execute(
        _RECORD, {**row, "of_node": claimed.ready.node_id, "of_claim": claimed.claim}
    )
    return keys[0] if error is None else None


_TOLD = (
    "provider_id",
    "request_id",
    "model",
    "fingerprint",
    "reasoning_field",
    "logprobs_mode",
    "template_sha256",
    "weight_version",
)


def again(
    connection: sa.Connection, node_id: UUID, *, pause_s: float, counts: bool, spent: Amounts
) -> None:
    """Calling → ready after a fault of the endpoint; `counts`: against the tries of
    its specification.
    """
    values = {
        "node_id": node_id,
        "pause_s": pause_s,
        "faults": int(counts),
        "tokens": spent.tokens,
        "usd": spent.usd,
    }
    connection.execute(_AGAIN, values)


def answered_within(
    connection: sa.Connection, collection_id: UUID, endpoint: str, seconds: float
) -> bool:
    """True if the endpoint has answered a call of the collection in the last so many seconds."""
    values = {"collection_id": collection_id, "endpoint": endpoint, "seconds": seconds}
    return bool(connection.execute(_ANSWERED_WITHIN, values).scalar_one())


def failed(
    connection: sa.Connection, node_id: UUID, outcome: AttemptResult, *, spent: Amounts
) -> None:
    """Calling → done without an answer."""
    values = {"node_id": node_id, "outcome": msgspec.json.encode(outcome).decode()}
    connection.execute(_FAILED, {**values, "tokens": spent.tokens, "usd": spent.usd})


def answered(
    connection: sa.Connection,
    node_id: UUID,
    *,
    spent: Amounts,
    kept: Amounts,
    facts: Mapping[str, object],
    outcome: AttemptResult | None = None,
) -> None:
    """Calling → evaluating, or done with an outcome; `kept` stays reserved until the
    evaluation ends.
    """
    row = {
        "state": NodeState.EVALUATING if outcome is None else NodeState.DONE,
        "lease_owner": None,
        "lease_until": None,
        "reserved": msgspec.to_builtins(kept),
        **facts,
    }
    if outcome is not None:
        row["outcome"] = msgspec.to_builtins(outcome)
    amounts = {"of_node": node_id, "spent_tokens": spent.tokens, "spent_usd": spent.usd}
    connection.execute(_ANSWERED, {**row, **amounts})


def settle_lapsed(connection: sa.Connection) -> Settled | None:
    """Settle one call of a silent worker: the call is lost, its maximum counts as spent, and the
    attempt is ready again, or done where its collection was stopped meanwhile.  None if there is no
    such call.

    One in a transaction: with the budgets of one call locked, those of the next one's rollout could
    belong to a worker that waits for the collection's.
    """
    row = connection.execute(_LAPSED, {"future_s": FUTURE_S}).one_or_none()
    if row is None:
        return None
    held = msgspec.convert(row.reserved or {}, Amounts)
    charged = Amounts(calls=1, tokens=held.tokens, usd=held.usd)
    lost = sa.update(tables.model_calls).where(_k.node_id == row.node_id, _k.claim == row.claims)
    connection.execute(lost.values(state=CallState.LOST, error_kind=ErrorKind.LOST))
    stopped = row.state == CollectionState.STOPPED
    given_up = stopped or row.lost + 1 >= MOST_LOST
    if given_up:
        fault = StopReason.STOPPED if stopped else StopReason.ENDPOINT_ERROR
        failed(connection, row.node_id, AttemptResult(fault=fault), spent=charged)
    else:
        again(connection, row.node_id, pause_s=0.0, counts=False, spent=charged)
    ledger.settle(
        connection,
        collection_id=row.collection_id,
        rollout_id=row.rollout_id,
        held=held,
        spent=charged,
    )
    return Settled(rollout_id=row.rollout_id, given_up=given_up)


def end_far_pauses(connection: sa.Connection) -> int:
    """Make attempts due where the pause ends later than any pause can: the
    database's clock was set back.
    """
    return connection.execute(_END_FAR, {"future_s": FUTURE_S, "never": NEVER}).rowcount


def send_missed(connection: sa.Connection, endpoint: str, limit: int) -> list[UUID]:
    """Ids of up to `limit` attempts that are due, those never sent first; marked as sent now."""
    return list(connection.execute(_MISSED, {"endpoint": endpoint, "limit": limit}).scalars())


def due(connection: sa.Connection, endpoint: str) -> int:
    """Number of attempts of running collections with a call due."""
    return int(connection.execute(_DUE, {"endpoint": endpoint}).scalar_one())


def any_of_turns(connection: sa.Connection) -> bool:
    """True where a turn was collected: else none has to be looked up."""
    return bool(
        connection.execute(sa.select(sa.exists().where(_n.turn_id.is_not(None)))).scalar_one()
    )


def of_turns(connection: sa.Connection, turn_ids: Collection[str]) -> dict[str, str]:
    """Turn → call that gave its answer, for collected turns."""
    if not turn_ids:
        return {}
    found = connection.execute(_OF_TURNS, {"turn_ids": list(turn_ids)})
    return {str(row.turn_id): str(row.model_call_id) for row in found}


def packed(values: Sequence[float] | None, kind: str) -> bytes | None:
    """Numbers as little-endian int32 (`i`) or float32 (`f`), zstd."""
    if values is None:
        return None
    return zstandard.compress(array(kind, values).tobytes(), messages.ZSTD_LEVEL)


def unpacked(data: bytes | None, kind: str) -> list[float] | None:
    """The numbers that `packed` was given."""
    return None if data is None else list(array(kind, zstandard.decompress(data)))


def _printable(text: str | None) -> str | None:
    return None if text is None else source_text.printable(text)[:500]


_RECORD = sa.update(tables.model_calls).where(
    _k.node_id == sa.bindparam("of_node"), _k.claim == sa.bindparam("of_claim")
)
_ANSWERED = (
    sa.update(tables.nodes)
    .where(_n.node_id == sa.bindparam("of_node"))
    .values(
        tokens=_n.tokens + sa.bindparam("spent_tokens"),
        cost_usd=_n.cost_usd + sa.bindparam("spent_usd"),
    )
)
"""Statements with parameters for the remaining columns.  Statements that are made once take a tenth
of the time of those that are made with their values.
"""
_EXTEND = sa.text("""
UPDATE nodes SET lease_until = now() + make_interval(secs => :lease_s)
WHERE node_id = ANY(:node_ids) AND lease_owner = :owner AND state = 'calling' RETURNING node_id
""").bindparams(sa.bindparam("node_ids", type_=ARRAY(sa.Uuid)))
_HOLD = sa.text("""
SELECT n.node_id, n.faults, n.continues, n.tokens, n.cost_usd, c.run_id, c.state, c.prompts,
  p.turn_id AS parent_turn_id
FROM nodes n JOIN collections c USING (collection_id)
  LEFT JOIN nodes p ON p.rollout_id = n.rollout_id AND p.key = n.parent
WHERE n.node_id = :node_id AND n.state = 'calling' AND n.claims = :claim AND n.lease_owner = :owner
FOR NO KEY UPDATE OF n
""")
_AGAIN = sa.text("""
UPDATE nodes SET state = 'ready', due_at = now() + make_interval(secs => :pause_s), sent_at = NULL,
  faults = faults + :faults, lease_owner = NULL, lease_until = NULL, reserved = NULL,
  tokens = tokens + :tokens, cost_usd = cost_usd + :usd
WHERE node_id = :node_id
""")
_ANSWERED_WITHIN = sa.text("""
SELECT EXISTS (
  SELECT FROM nodes n JOIN model_calls k USING (node_id)
  WHERE n.collection_id = :collection_id AND k.endpoint = :endpoint AND k.state = 'answered'
    AND k.last_at > now() - make_interval(secs => :seconds)
)
""")
_FAILED = sa.text("""
UPDATE nodes SET state = 'done', outcome = CAST(:outcome AS jsonb), lease_owner = NULL,
  lease_until = NULL,
  reserved = NULL, tokens = tokens + :tokens, cost_usd = cost_usd + :usd
WHERE node_id = :node_id
""")
_LAPSED = sa.text("""
SELECT n.node_id, n.rollout_id, n.collection_id, n.claims, n.reserved, c.state,
  (SELECT count(*) FROM model_calls k WHERE k.node_id = n.node_id AND k.state = 'lost') AS lost
FROM nodes n JOIN collections c USING (collection_id)
WHERE n.state = 'calling' AND (lease_until < now()
  OR lease_until > now() + make_interval(secs => :future_s))
ORDER BY n.node_id LIMIT 1 FOR NO KEY UPDATE OF n SKIP LOCKED
""")
_END_FAR = sa.text("""
UPDATE nodes SET due_at = now()
WHERE state = 'ready' AND due_at > now() + make_interval(secs => :future_s) AND due_at < :never
""")
_MISSED = sa.text("""
UPDATE nodes SET sent_at = now() WHERE node_id IN (
  SELECT n.node_id FROM nodes n JOIN collections c USING (collection_id)
  WHERE n.state = 'ready' AND n.endpoint = :endpoint AND n.due_at <= now() AND c.state = 'running'
  ORDER BY n.sent_at NULLS FIRST, n.due_at LIMIT :limit FOR NO KEY UPDATE OF n SKIP LOCKED)
RETURNING node_id
""")
_OF_TURNS = sa.text("""
SELECT DISTINCT ON (n.turn_id) n.turn_id, k.model_call_id FROM nodes n
  JOIN model_calls k USING (node_id)
WHERE n.turn_id = ANY(CAST(:turn_ids AS uuid[])) AND k.state = 'answered' ORDER BY n.turn_id,
  k.claim DESC
""")
_DUE = sa.text("""
SELECT count(*) FROM nodes n JOIN collections c USING (collection_id)
WHERE n.state = 'ready' AND n.endpoint = :endpoint AND n.due_at <= now() AND c.state = 'running'
""")
