"""Tables of collection: campaigns, their search trees, and every call of a model.

Budgets are columns, so that one statement checks a cap and reserves.  Texts are addressed by
content: attempts of a problem share its prompt.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from app.domain.collection.call import End, ErrorKind
from app.domain.collection.states import CallState, CollectionState, NodeState
from app.domain.collection.stop_reasons import StopReason
from app.store.tables.base import created_at, id_column, metadata, one_of, reference

AMOUNTS = {
    "calls": sa.BigInteger,
    "tokens": sa.BigInteger,
    "usd": sa.Numeric,
    "evaluations": sa.BigInteger,
    "gpu_s": sa.Numeric,
}
"""Quantities of app.domain.collection.budgets.Amounts with their types; decimal ones, so that a
reservation is released exactly.
"""


def _amounts(*prefixes: str) -> list[sa.Column]:  # type: ignore[type-arg]
    return [
        sa.Column(f"{prefix}_{name}", kind, nullable=False, server_default="0")
        for prefix in prefixes
        for name, kind in AMOUNTS.items()
    ]


collections = sa.Table(
    "collections",
    metadata,
    id_column("collection_id"),
    sa.Column("run_id", sa.Uuid, sa.ForeignKey("runs.run_id"), nullable=False, unique=True),
    sa.Column("spec", JSONB, nullable=False),  # app.domain.collection.spec.CollectionSpec
    sa.Column("spec_sha256", sa.Text, nullable=False),
    sa.Column("endpoint", sa.Text, nullable=False),  # the first one: its workers decide
    sa.Column("prompts", JSONB, nullable=False),  # kind → hash of the template in use
    sa.Column("state", sa.Text, nullable=False, server_default=CollectionState.RUNNING),
    sa.Column("reason", sa.Text, nullable=False, server_default=""),  # why it is paused or stopped
    *_amounts("spent", "reserved"),
    *[sa.Column(f"cap_{name}", kind) for name, kind in AMOUNTS.items()],  # NULL: no limit
    sa.Column("deadline_at", sa.DateTime(timezone=True)),  # no call begins later
    reference("users.user_id", null=True, index=False),
    created_at(),
    sa.Column("finished_at", sa.DateTime(timezone=True)),
    one_of("state", CollectionState),
    sa.Index("ix_collections_created_at", sa.text("created_at DESC")),
    postgresql_with={"fillfactor": 50},
)

collection_rollouts = sa.Table(
    "collection_rollouts",
    metadata,
    id_column("rollout_id"),
    reference("collections.collection_id", index=False),
    reference("problems.problem_id"),
    sa.Column("sample", sa.Integer, nullable=False),
    sa.Column("stop_reason", sa.Text),  # NULL: it goes on
    sa.Column("stop_detail", sa.Text, nullable=False, server_default=""),
    sa.Column(
        "picked", ARRAY(sa.Text), nullable=False, server_default="{}"
    ),  # keys of nodes, best first
    sa.Column(
        "due_at", sa.DateTime(timezone=True)
    ),  # NULL: nothing to decide before an attempt ends
    sa.Column("sent_at", sa.DateTime(timezone=True)),  # last time a message left for it
    *_amounts("spent", "reserved"),
    created_at(),
    sa.Column("finished_at", sa.DateTime(timezone=True)),
    one_of("stop_reason", StopReason),
    sa.CheckConstraint("(stop_reason IS NULL) = (finished_at IS NULL)", name="finished"),
    sa.UniqueConstraint("collection_id", "problem_id", "sample"),
    sa.Index(
        "ix_collection_rollouts_due", "due_at", postgresql_where=sa.text("due_at IS NOT NULL")
    ),
    postgresql_with={"fillfactor": 50},
)

nodes = sa.Table(
    "nodes",
    metadata,
    id_column("node_id"),
    reference("collection_rollouts.rollout_id", index=False),
    reference("collections.collection_id", index=True),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("parent", sa.Text),  # key of the attempt that it continues
    sa.Column(
        "shown", ARRAY(sa.Text), nullable=False, server_default="{}"
    ),  # keys of those in its prompt
    sa.Column("operator", sa.Text, nullable=False),
    sa.Column("sample", sa.Integer, nullable=False),
    sa.Column("turn", sa.Integer, nullable=False),
    sa.Column("round", sa.Integer, nullable=False),
    sa.Column("endpoint", sa.Text, nullable=False),
    sa.Column("seed", sa.BigInteger, nullable=False),
    sa.Column(
        "messages", ARRAY(sa.LargeBinary), nullable=False
    ),  # hashes, in the order in which they are sent
    sa.Column(
        "continues", sa.Boolean, nullable=False
    ),  # its conversation is its parent's, and goes on
    sa.Column("state", sa.Text, nullable=False, server_default=NodeState.READY),
    sa.Column("due_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Column("sent_at", sa.DateTime(timezone=True)),  # last time a message left for it
    sa.Column("claims", sa.Integer, nullable=False, server_default="0"),  # fences its answer
    sa.Column(
        "faults", sa.Integer, nullable=False, server_default="0"
    ),  # tries that the endpoint failed
    sa.Column("lease_owner", sa.Text),
    sa.Column("lease_until", sa.DateTime(timezone=True)),
    sa.Column("reserved", JSONB),  # amounts held for it
    reference("turns.turn_id", null=True, index=True),
    sa.Column("job_id", sa.Uuid, sa.ForeignKey("jobs.job_id")),
    sa.Column("answer", sa.LargeBinary),  # hash of the message by which later prompts show it
    sa.Column("extraction", sa.Text),  # 'ok', or why its answer has no candidate
    sa.Column("ending", sa.Text),  # end of its answer, in Assay's vocabulary
    sa.Column(
        "tokens", sa.BigInteger, nullable=False, server_default="0"
    ),  # input and output of all its calls
    sa.Column("cost_usd", sa.Numeric, nullable=False, server_default="0"),
    sa.Column("feedback", sa.LargeBinary),  # hash of the text that the next prompt shows
    sa.Column("outcome", JSONB),  # app.domain.collection.tree.AttemptResult, fixed when it ended
    created_at(),
    one_of("state", NodeState),
    sa.CheckConstraint("(state = 'calling') = (lease_until IS NOT NULL)", name="lease"),
    sa.CheckConstraint("(state = 'done') = (outcome IS NOT NULL)", name="outcome"),
    sa.UniqueConstraint("rollout_id", "key"),
    # the order in which attempts are claimed: those of rollouts that have begun come first
    sa.Index(
        "ix_nodes_ready",
        "endpoint",
        sa.text("(turn = 0)"),
        "due_at",
        "node_id",
        postgresql_where=sa.text("state = 'ready'"),
    ),
    sa.Index("ix_nodes_calling", "lease_until", postgresql_where=sa.text("state = 'calling'")),
    sa.Index("ix_nodes_evaluating", "job_id", postgresql_where=sa.text("state = 'evaluating'")),
    postgresql_with={"fillfactor": 60},
)

model_calls = sa.Table(
    "model_calls",
    metadata,
    id_column("model_call_id"),
    reference("nodes.node_id", index=False),
    sa.Column("claim", sa.Integer, nullable=False),  # number of the node's claim, from 1
    sa.Column("state", sa.Text, nullable=False, server_default=CallState.SENT),
    sa.Column("endpoint", sa.Text, nullable=False),
    sa.Column("worker", sa.Text, nullable=False),
    sa.Column("request", JSONB, nullable=False),  # parameters as sent: model, sampling, seed
    sa.Column("body_sha256", sa.Text),  # hash of the whole body that was sent
    sa.Column("sent_at", sa.DateTime(timezone=True)),
    sa.Column("first_token_at", sa.DateTime(timezone=True)),
    sa.Column("last_at", sa.DateTime(timezone=True)),
    sa.Column("status", sa.Integer),  # HTTP status
    sa.Column("error_kind", sa.Text),
    sa.Column("error_message", sa.Text),
    sa.Column("provider_id", sa.Text),
    sa.Column("request_id", sa.Text),
    sa.Column("model", sa.Text),  # name that the server gives
    sa.Column("fingerprint", sa.Text),
    sa.Column("finish_reason", sa.Text),  # the server's own word
    sa.Column("ending", sa.Text),  # in our vocabulary
    sa.Column("answer", sa.LargeBinary),  # hash of the message
    sa.Column("reasoning", sa.LargeBinary),  # hash of the message
    sa.Column("reasoning_field", sa.Text),
    sa.Column("input_tokens", sa.BigInteger),
    sa.Column("cached_input_tokens", sa.BigInteger),
    sa.Column("output_tokens", sa.BigInteger),
    sa.Column("reasoning_tokens", sa.BigInteger),
    sa.Column("usage_source", sa.Text),
    sa.Column("cost_usd", sa.Numeric),
    sa.Column("cost_source", sa.Text),
    sa.Column("prompt_token_ids", sa.LargeBinary),  # int32, zstd
    sa.Column("token_ids", sa.LargeBinary),  # int32, zstd
    sa.Column("logprobs", sa.LargeBinary),  # float32, zstd
    sa.Column("logprobs_mode", sa.Text),
    sa.Column("template_sha256", sa.Text),
    sa.Column("weight_version", sa.Text),
    created_at(),
    one_of("state", CallState),
    one_of("error_kind", ErrorKind),
    one_of("ending", End),
    sa.UniqueConstraint("node_id", "claim"),
)

messages = sa.Table(
    "messages",
    metadata,
    sa.Column(
        "message_sha256", sa.LargeBinary, primary_key=True
    ),  # hash of role, a zero byte and content
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("content", sa.LargeBinary, nullable=False),  # zstd
)

endpoint_workers = sa.Table(
    "endpoint_workers",
    metadata,
    sa.Column("worker", sa.Text, primary_key=True),  # '<node>.<pid>.<random>'
    sa.Column("endpoint", sa.Text, nullable=False, index=True),
    sa.Column("in_flight", sa.Integer, nullable=False),
    sa.Column("has_key", sa.Boolean, nullable=False),  # or needs none
    sa.Column("heartbeat_at", sa.DateTime(timezone=True), nullable=False),
    created_at(),
)
