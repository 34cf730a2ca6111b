"""Tables of collection: collections, rollouts, nodes of search trees, calls of
models, messages by content.
"""

from __future__ import annotations

from alembic import op

revision = "20261124c"
down_revision = "20261123l"
branch_labels = None
depends_on = None

TABLES = (
    "collections",
    "collection_rollouts",
    "nodes",
    "messages",
    "model_calls",
    "endpoint_workers",
)

STATEMENTS = (
    """
CREATE TABLE collections (
    collection_id UUID NOT NULL,
    run_id UUID NOT NULL,
    spec JSONB NOT NULL,
    spec_sha256 TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    prompts JSONB NOT NULL,
    state TEXT DEFAULT 'running' NOT NULL,
    reason TEXT DEFAULT '' NOT NULL,
    spent_calls BIGINT DEFAULT '0' NOT NULL,
    spent_tokens BIGINT DEFAULT '0' NOT NULL,
    spent_usd NUMERIC DEFAULT '0' NOT NULL,
    spent_evaluations BIGINT DEFAULT '0' NOT NULL,
    spent_gpu_s NUMERIC DEFAULT '0' NOT NULL,
    reserved_calls BIGINT DEFAULT '0' NOT NULL,
    reserved_tokens BIGINT DEFAULT '0' NOT NULL,
    reserved_usd NUMERIC DEFAULT '0' NOT NULL,
    reserved_evaluations BIGINT DEFAULT '0' NOT NULL,
    reserved_gpu_s NUMERIC DEFAULT '0' NOT NULL,
    cap_calls BIGINT,
    cap_tokens BIGINT,
    cap_usd NUMERIC,
    cap_evaluations BIGINT,
    cap_gpu_s NUMERIC,
    deadline_at TIMESTAMP WITH TIME ZONE,
    user_id UUID,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    finished_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_collections PRIMARY KEY (collection_id),
    CONSTRAINT ck_collections_state CHECK (state IN ('running', 'paused', 'stopped', 'finished')),
    CONSTRAINT uq_collections_run_id UNIQUE (run_id),
    CONSTRAINT fk_collections_run_id
        FOREIGN KEY(run_id) REFERENCES runs (run_id),
    CONSTRAINT fk_collections_user_id
        FOREIGN KEY(user_id) REFERENCES users (user_id)
)
 WITH (fillfactor = 50)
""",
    "CREATE INDEX ix_collections_created_at ON collections (created_at DESC)",
    """
CREATE TABLE collection_rollouts (
    rollout_id UUID NOT NULL,
    collection_id UUID NOT NULL,
    problem_id UUID NOT NULL,
    sample INTEGER NOT NULL,
    stop_reason TEXT,
    stop_detail TEXT DEFAULT '' NOT NULL,
    picked TEXT[] DEFAULT '{}' NOT NULL,
    due_at TIMESTAMP WITH TIME ZONE,
    sent_at TIMESTAMP WITH TIME ZONE,
    spent_calls BIGINT DEFAULT '0' NOT NULL,
    spent_tokens BIGINT DEFAULT '0' NOT NULL,
    spent_usd NUMERIC DEFAULT '0' NOT NULL,
    spent_evaluations BIGINT DEFAULT '0' NOT NULL,
    spent_gpu_s NUMERIC DEFAULT '0' NOT NULL,
    reserved_calls BIGINT DEFAULT '0' NOT NULL,
    reserved_tokens BIGINT DEFAULT '0' NOT NULL,
    reserved_usd NUMERIC DEFAULT '0' NOT NULL,
    reserved_evaluations BIGINT DEFAULT '0' NOT NULL,
    reserved_gpu_s NUMERIC DEFAULT '0' NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    finished_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_collection_rollouts PRIMARY KEY (rollout_id),
    CONSTRAINT ck_collection_rollouts_stop_reason CHECK (stop_reason IN (
        'solved',
        'target_speedup',
        'no_progress',
        'no_code',
        'truncated',
        'refused',
        'content_filter',
        'hack',
        'max_turns',
        'max_tokens',
        'context_overflow',
        'endpoint_error',
        'evaluator_error',
        'budget',
        'stopped'
    )),
    CONSTRAINT ck_collection_rollouts_finished CHECK ((stop_reason IS NULL) = (finished_at IS NULL)),
    CONSTRAINT uq_collection_rollouts_collection_id_problem_id_sample UNIQUE (collection_id, problem_id, sample),
    CONSTRAINT fk_collection_rollouts_collection_id
        FOREIGN KEY(collection_id) REFERENCES collections (collection_id),
    CONSTRAINT fk_collection_rollouts_problem_id
        FOREIGN KEY(problem_id) REFERENCES problems (problem_id)
)
 WITH (fillfactor = 50)
""",
    (
        "CREATE INDEX ix_collection_rollouts_due ON collection_rollouts (due_at) WHERE due_at IS"
        " NOT NULL"
    ),
    "CREATE INDEX ix_collection_rollouts_problem_id ON collection_rollouts (problem_id)",
    """
CREATE TABLE nodes (
    node_id UUID NOT NULL,
    rollout_id UUID NOT NULL,
    collection_id UUID NOT NULL,
    key TEXT NOT NULL,
    parent TEXT,
    shown TEXT[] DEFAULT '{}' NOT NULL,
    operator TEXT NOT NULL,
    sample INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    round INTEGER NOT NULL,
    endpoint TEXT NOT NULL,
    seed BIGINT NOT NULL,
    messages BYTEA[] NOT NULL,
    continues BOOLEAN NOT NULL,
    state TEXT DEFAULT 'ready' NOT NULL,
    due_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    sent_at TIMESTAMP WITH TIME ZONE,
    claims INTEGER DEFAULT '0' NOT NULL,
    faults INTEGER DEFAULT '0' NOT NULL,
    lease_owner TEXT,
    lease_until TIMESTAMP WITH TIME ZONE,
    reserved JSONB,
    turn_id UUID,
    job_id UUID,
    answer BYTEA,
    extraction TEXT,
    ending TEXT,
    tokens BIGINT DEFAULT '0' NOT NULL,
    cost_usd NUMERIC DEFAULT '0' NOT NULL,
    feedback BYTEA,
    outcome JSONB,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_nodes PRIMARY KEY (node_id),
    CONSTRAINT ck_nodes_state CHECK (state IN ('ready', 'calling', 'evaluating', 'done')),
    CONSTRAINT ck_nodes_lease CHECK ((state = 'calling') = (lease_until IS NOT NULL)),
    CONSTRAINT ck_nodes_outcome CHECK ((state = 'done') = (outcome IS NOT NULL)),
    CONSTRAINT uq_nodes_rollout_id_key UNIQUE (rollout_id, key),
    CONSTRAINT fk_nodes_rollout_id
        FOREIGN KEY(rollout_id) REFERENCES collection_rollouts (rollout_id),
    CONSTRAINT fk_nodes_collection_id
        FOREIGN KEY(collection_id) REFERENCES collections (collection_id),
    CONSTRAINT fk_nodes_turn_id
        FOREIGN KEY(turn_id) REFERENCES turns (turn_id),
    CONSTRAINT fk_nodes_job_id
        FOREIGN KEY(job_id) REFERENCES jobs (job_id)
)
 WITH (fillfactor = 60)
""",
    "CREATE INDEX ix_nodes_calling ON nodes (lease_until) WHERE state = 'calling'",
    "CREATE INDEX ix_nodes_collection_id ON nodes (collection_id)",
    "CREATE INDEX ix_nodes_evaluating ON nodes (job_id) WHERE state = 'evaluating'",
    "CREATE INDEX ix_nodes_ready ON nodes (endpoint, due_at) WHERE state = 'ready'",
    "CREATE INDEX ix_nodes_turn_id ON nodes (turn_id)",
    """
CREATE TABLE messages (
    message_sha256 BYTEA NOT NULL,
    role TEXT NOT NULL,
    content BYTEA NOT NULL,
    CONSTRAINT pk_messages PRIMARY KEY (message_sha256)
)
""",
    """
CREATE TABLE model_calls (
    model_call_id UUID NOT NULL,
    node_id UUID NOT NULL,
    claim INTEGER NOT NULL,
    state TEXT DEFAULT 'sent' NOT NULL,
    endpoint TEXT NOT NULL,
    worker TEXT NOT NULL,
    request JSONB NOT NULL,
    body_sha256 TEXT,
    sent_at TIMESTAMP WITH TIME ZONE,
    first_token_at TIMESTAMP WITH TIME ZONE,
    last_at TIMESTAMP WITH TIME ZONE,
    status INTEGER,
    error_kind TEXT,
    error_message TEXT,
    provider_id TEXT,
    request_id TEXT,
    model TEXT,
    fingerprint TEXT,
    finish_reason TEXT,
    ending TEXT,
    answer BYTEA,
    reasoning BYTEA,
    reasoning_field TEXT,
    input_tokens BIGINT,
    cached_input_tokens BIGINT,
    output_tokens BIGINT,
    reasoning_tokens BIGINT,
    usage_source TEXT,
    cost_usd NUMERIC,
    cost_source TEXT,
    prompt_token_ids BYTEA,
    token_ids BYTEA,
    logprobs BYTEA,
    logprobs_mode TEXT,
    template_sha256 TEXT,
    weight_version TEXT,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_model_calls PRIMARY KEY (model_call_id),
    CONSTRAINT ck_model_calls_state CHECK (state IN ('sent', 'answered', 'failed', 'lost')),
    CONSTRAINT ck_model_calls_error_kind CHECK (error_kind IN (
        'rate_limited',
        'overloaded',
        'server_error',
        'timeout_connect',
        'timeout_start',
        'timeout_idle',
        'broken_stream',
        'bad_answer',
        'content_policy',
        'context_overflow',
        'bad_request',
        'unauthorised',
        'quota',
        'not_found',
        'lost'
    )),
    CONSTRAINT ck_model_calls_ending CHECK (ending IN (
        'stop',
        'length',
        'content_filter',
        'refused',
        'tool_calls',
        'abort',
        'unknown',
        'error'
    )),
    CONSTRAINT uq_model_calls_node_id_claim UNIQUE (node_id, claim),
    CONSTRAINT fk_model_calls_node_id
        FOREIGN KEY(node_id) REFERENCES nodes (node_id)
)
""",
    """
CREATE TABLE endpoint_workers (
    worker TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    in_flight INTEGER NOT NULL,
    has_key BOOLEAN NOT NULL,
    heartbeat_at TIMESTAMP WITH TIME ZONE NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_endpoint_workers PRIMARY KEY (worker)
)
""",
    "CREATE INDEX ix_endpoint_workers_endpoint ON endpoint_workers (endpoint)",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    for name in reversed(TABLES):
        op.drop_table(name)
