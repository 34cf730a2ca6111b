"""For the web UI: roll-ups, and notices for pages that are open.

Roll-ups are kept by triggers, because then every way of writing keeps them.  Each appends
deltas and updates nothing that another transaction could hold.  The views are the
definitions: triggers read them, and so does `assay db rollup --check`.  The label that counts
is a person's, where there is one.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261121u"
down_revision = "20261121p"
branch_labels = None
depends_on = None

COUNTED = {
    "attempts": "count(*)",
    "correct": "count(*) FILTER (WHERE credited)",
    "passed": "count(*) FILTER (WHERE correct)",
    "hacks": "count(*) FILTER (WHERE label = 'hack')",
    "suspects": "count(*) FILTER (WHERE label = 'suspect')",
    "timed": "count(*) FILTER (WHERE timed)",
    "log_speedup_e9": "coalesce(sum(round(ln(speedup) * 1e9)::bigint) FILTER (WHERE timed), 0)",
    "faster_than_1": "count(*) FILTER (WHERE timed AND speedup > 1)",
    "faster_than_1_2": "count(*) FILTER (WHERE timed AND speedup > 1.2)",
    "faster_than_1_5": "count(*) FILTER (WHERE timed AND speedup > 1.5)",
    "faster_than_2": "count(*) FILTER (WHERE timed AND speedup > 2)",
}
"""Column of `attempt_counts` → how it is counted."""

CREDITED = """
    SELECT *, correct AND label <> 'hack' AS credited, correct AND label <> 'hack' AND speedup IS NOT NULL AS timed
    FROM {} WHERE valid
"""

TRIGGERS = {
    "verdicts": ("inserted", "updated", "deleted", "leaves"),
    "findings": ("inserted", "leaves"),
    "turns": ("inserted", "updated", "deleted"),
    "evaluations": ("updated",),
    "attempts": ("inserted", "deleted"),
}
NOTICED = ("jobs", "devices", "exports", "runs")
"""Tables whose changes are announced as they are; those of evaluations and turns by
the triggers that count them.
"""

FUNCTIONS = (
    "assay_notice",
    "assay_attempts_changed",
    "assay_verdicts_changed",
    "assay_verdicts_deleted",
    "assay_verdict_leaves",
    "assay_evaluations_reviewed",
    "assay_turns_changed",
    "assay_findings_added",
    "assay_finding_leaves",
    "assay_count_verdicts",
    "assay_refresh_attempts",
)
VIEWS = (
    "hourly_findings_facts",
    "hourly_stages_facts",
    "hourly_counts_facts",
    "attempt_counts_facts",
    "finding_facts",
    "stage_facts",
    "verdict_facts",
    "attempt_facts",
)


def upgrade() -> None:
    _attempts()
    _counts()
    _attempt_views()
    _hourly_views()
    _shared_functions()
    _attempt_triggers()
    _verdict_triggers()
    _finding_triggers()
    _turn_triggers()
    _notices()
    op.create_index(
        "ix_jobs_failed", "jobs", ["finished_at"], postgresql_where=sa.text("state = 'failed'")
    )
    op.execute("INSERT INTO attempts SELECT * FROM attempt_facts")  # a trigger fills attempt_counts
    for table in ("hourly_counts", "hourly_stages", "hourly_findings"):
        op.execute(f"INSERT INTO {table} SELECT * FROM {table}_facts")


def downgrade() -> None:
    op.drop_index("ix_jobs_failed", "jobs")
    for table in NOTICED:
        op.execute(f"DROP TRIGGER assay_notice ON {table}")
    for table, names in TRIGGERS.items():
        for name in names:
            op.execute(f"DROP TRIGGER assay_{name} ON {table}")
    for function in FUNCTIONS:
        op.execute(f"DROP FUNCTION {function}")
    for view in VIEWS:
        op.execute(f"DROP VIEW {view}")
    for table in (
        "hourly_findings",
        "hourly_stages",
        "hourly_counts",
        "attempt_counts",
        "attempts",
    ):
        op.drop_table(table)


def _attempts() -> None:
    op.create_table(
        "attempts",
        sa.Column("attempt_id", sa.Uuid(), nullable=False),
        sa.Column("evaluation_id", sa.Uuid(), nullable=True),
        sa.Column("turn_id", sa.Uuid(), nullable=True),
        sa.Column("trajectory_id", sa.Uuid(), nullable=True),
        sa.Column("turn_index", sa.Integer(), nullable=True),
        sa.Column("run_id", sa.Uuid(), nullable=True),
        sa.Column("problem_id", sa.Uuid(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("valid", sa.Boolean(), nullable=False),
        sa.Column("correct", sa.Boolean(), nullable=False),
        sa.Column("label", sa.Text(), nullable=True),
        sa.Column("speedup", sa.Double(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("attempt_id", name="pk_attempts"),
    )
    op.create_index("ix_attempts_evaluation_id", "attempts", ["evaluation_id"])
    op.create_index("ix_attempts_run_id", "attempts", ["run_id"])
    op.create_index("ix_attempts_problem_id_status", "attempts", ["problem_id", "status"])
    op.create_index(
        "ix_attempts_problem_id_speedup",
        "attempts",
        ["problem_id", sa.literal_column("speedup DESC")],
        postgresql_where=sa.text("speedup IS NOT NULL AND correct AND label <> 'hack'"),
    )


def _counts() -> None:
    op.create_table(
        "attempt_counts",
        sa.Column("run_id", sa.Uuid(), nullable=True),
        sa.Column("problem_id", sa.Uuid(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in COUNTED),
    )
    op.create_index("ix_attempt_counts_run_id", "attempt_counts", ["run_id"])
    op.create_index("ix_attempt_counts_problem_id", "attempt_counts", ["problem_id"])
    text, integer = sa.Text(), sa.Integer()
    _hourly(
        "hourly_counts",
        "evaluations",
        device_class=text,
        status=text,
        label=text,
        human_verdict=text,
    )
    _hourly("hourly_stages", "evaluations", device_class=text, stage=text, bucket=integer)
    _hourly("hourly_findings", "findings", detector=text, version=integer, label=text)


def _hourly(name: str, counted: str, **keys: sa.Text | sa.Integer) -> None:
    op.create_table(
        name,
        sa.Column("hour", sa.DateTime(timezone=True), nullable=False),
        *(sa.Column(key, kind, nullable=False) for key, kind in keys.items()),
        sa.Column(counted, sa.BigInteger(), nullable=False),
    )
    op.create_index(f"ix_{name}_hour", name, ["hour"])


def _attempt_views() -> None:
    """An attempt is a turn whose candidate was judged, a turn without code, or a judged
    evaluation that no turn asked for.
    """
    op.execute("""
        CREATE VIEW attempt_facts AS
        SELECT t.turn_id AS attempt_id, e.evaluation_id, t.turn_id, t.trajectory_id, t.turn_index, r.run_id,
               r.problem_id, e.status, e.valid, e.correct, coalesce(e.human_verdict, v.label) AS label, e.speedup,
               e.created_at
        FROM verdicts v JOIN evaluations e USING (evaluation_id) JOIN turns t USING (job_id)
             JOIN trajectories r USING (trajectory_id)
        WHERE v.is_current
        UNION ALL
        SELECT t.turn_id, NULL, t.turn_id, t.trajectory_id, t.turn_index, r.run_id,
               r.problem_id, 'no_code', true, false, NULL, NULL, t.created_at
        FROM turns t JOIN trajectories r USING (trajectory_id)
        WHERE t.job_id IS NULL
        UNION ALL
        SELECT e.evaluation_id, e.evaluation_id, NULL, NULL, NULL, NULL,
               j.problem_id, e.status, e.valid, e.correct, coalesce(e.human_verdict, v.label), e.speedup,
               e.created_at
        FROM verdicts v JOIN evaluations e USING (evaluation_id) JOIN jobs j USING (job_id)
        WHERE v.is_current AND NOT EXISTS (SELECT FROM turns t WHERE t.job_id = e.job_id)
    """)
    counts = ", ".join(f"{count} AS {name}" for name, count in COUNTED.items())
    op.execute(f"""
        CREATE VIEW attempt_counts_facts AS
        SELECT run_id, problem_id, {counts} FROM ({CREDITED.format("attempt_facts")}) c GROUP BY run_id, problem_id
    """)


def _hourly_views() -> None:
    """By the hour in which the evaluation was stored, each evaluation once."""
    op.execute("""
        CREATE VIEW verdict_facts AS
        SELECT v.verdict_id, v.is_current, date_trunc('hour', e.created_at, 'UTC') AS hour, e.device_class, e.status,
               v.label, coalesce(e.human_verdict, '') AS human_verdict
        FROM verdicts v JOIN evaluations e USING (evaluation_id)
    """)
    op.execute("""
        CREATE VIEW stage_facts AS
        SELECT v.verdict_id, v.is_current, date_trunc('hour', e.created_at, 'UTC') AS hour, e.device_class, s.stage,
               floor(4 * ln(greatest(s.ms, 0.001)) / ln(2::double precision))::integer AS bucket
        FROM verdicts v JOIN evaluations e USING (evaluation_id),
             LATERAL (SELECT 'queue' AS stage, e.queue_ms AS ms
                      UNION ALL
                      SELECT key, value::double precision FROM jsonb_each_text(e.measurement -> 'stage_ms')) s
    """)
    op.execute("""
        CREATE VIEW finding_facts AS
        SELECT f.finding_id, v.verdict_id, v.is_current, date_trunc('hour', e.created_at, 'UTC') AS hour, f.detector,
               f.version, f.label
        FROM findings f JOIN verdicts v USING (verdict_id) JOIN evaluations e USING (evaluation_id)
    """)
    op.execute("""
        CREATE VIEW hourly_counts_facts AS
        SELECT hour, device_class, status, label, human_verdict, count(*) AS evaluations
        FROM verdict_facts WHERE is_current GROUP BY 1, 2, 3, 4, 5
    """)
    op.execute("""
        CREATE VIEW hourly_stages_facts AS
        SELECT hour, device_class, stage, bucket, count(*) AS evaluations
        FROM stage_facts WHERE is_current GROUP BY 1, 2, 3, 4
    """)
    op.execute("""
        CREATE VIEW hourly_findings_facts AS
        SELECT hour, detector, version, label, count(*) AS findings
        FROM finding_facts WHERE is_current GROUP BY 1, 2, 3, 4
    """)


def _shared_functions() -> None:
    """Ids are passed as arrays: plans for them are always those for few rows, index by index."""
    op.execute("""
        CREATE FUNCTION assay_refresh_attempts(evaluation_ids uuid[], turn_ids uuid[]) RETURNS void
        LANGUAGE plpgsql AS $$
        BEGIN
            DELETE FROM attempts WHERE evaluation_id = ANY (evaluation_ids);
            DELETE FROM attempts WHERE attempt_id = ANY (turn_ids);
            INSERT INTO attempts SELECT * FROM attempt_facts WHERE evaluation_id = ANY (evaluation_ids);
            INSERT INTO attempts SELECT * FROM attempt_facts WHERE turn_id = ANY (turn_ids) AND evaluation_id IS NULL;
        END $$
    """)
    op.execute("""
        CREATE FUNCTION assay_count_verdicts(verdict_ids uuid[], sign integer) RETURNS void
        LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO hourly_counts
                SELECT f.hour, f.device_class, f.status, f.label, f.human_verdict, sign * count(*)
                FROM verdict_facts f WHERE f.verdict_id = ANY (verdict_ids) GROUP BY 1, 2, 3, 4, 5;
            INSERT INTO hourly_stages
                SELECT f.hour, f.device_class, f.stage, f.bucket, sign * count(*)
                FROM stage_facts f WHERE f.verdict_id = ANY (verdict_ids) GROUP BY 1, 2, 3, 4;
            INSERT INTO hourly_findings
                SELECT f.hour, f.detector, f.version, f.label, sign * count(*)
                FROM finding_facts f WHERE f.verdict_id = ANY (verdict_ids) GROUP BY 1, 2, 3, 4;
        END $$
    """)


def _attempt_triggers() -> None:
    counts = ", ".join(f"sign * {count}" for count in COUNTED.values())
    op.execute(f"""
        CREATE FUNCTION assay_attempts_changed() RETURNS trigger
        LANGUAGE plpgsql AS $$
        DECLARE
            sign constant integer := CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END;
        BEGIN
            INSERT INTO attempt_counts
                SELECT run_id, problem_id, {counts} FROM ({CREDITED.format("changed")}) c
                GROUP BY run_id, problem_id;
            RETURN NULL;
        END $$
    """)
    _trigger("attempts", "inserted", "INSERT", "NEW TABLE AS changed", "assay_attempts_changed")
    _trigger("attempts", "deleted", "DELETE", "OLD TABLE AS changed", "assay_attempts_changed")


def _verdict_triggers() -> None:
    op.execute("""
        CREATE FUNCTION assay_verdicts_changed() RETURNS trigger
        LANGUAGE plpgsql AS $$
        DECLARE
            gone uuid[] := '{}';
            come uuid[] := ARRAY(SELECT verdict_id FROM new_rows WHERE is_current);
        BEGIN
            IF TG_OP = 'UPDATE' THEN
                gone := ARRAY(SELECT verdict_id FROM old_rows WHERE is_current);
                PERFORM assay_count_verdicts(gone, -1);
            END IF;
            PERFORM assay_count_verdicts(come, 1);
            PERFORM assay_refresh_attempts(ARRAY(SELECT DISTINCT evaluation_id FROM new_rows), '{}');
            PERFORM pg_notify('assay_live', 'evaluations');
            RETURN NULL;
        END $$
    """)
    op.execute("""
        CREATE FUNCTION assay_verdict_leaves() RETURNS trigger
        LANGUAGE plpgsql AS $$
        BEGIN
            PERFORM assay_count_verdicts(ARRAY[OLD.verdict_id], -1);
            RETURN OLD;
        END $$
    """)
    op.execute("""
        CREATE FUNCTION assay_verdicts_deleted() RETURNS trigger
        LANGUAGE plpgsql AS $$
        BEGIN
            PERFORM assay_refresh_attempts(ARRAY(SELECT DISTINCT evaluation_id FROM old_rows), '{}');
            PERFORM pg_notify('assay_live', 'evaluations');
            RETURN NULL;
        END $$
    """)
    _trigger("verdicts", "inserted", "INSERT", "NEW TABLE AS new_rows", "assay_verdicts_changed")
    _trigger(
        "verdicts",
        "updated",
        "UPDATE",
        "OLD TABLE AS old_rows NEW TABLE AS new_rows",
        "assay_verdicts_changed",
    )
    _trigger("verdicts", "deleted", "DELETE", "OLD TABLE AS old_rows", "assay_verdicts_deleted")
    # Before, not after: rows that are counted down must still be readable.  To
    # delete many, clear is_current first.
    op.execute("""
        CREATE TRIGGER assay_leaves BEFORE DELETE ON verdicts FOR EACH ROW WHEN (OLD.is_current)
        EXECUTE FUNCTION assay_verdict_leaves()
    """)
    op.execute("""
        CREATE FUNCTION assay_evaluations_reviewed() RETURNS trigger
        LANGUAGE plpgsql AS $$
        DECLARE
            reviewed uuid[] := ARRAY(
                SELECT n.evaluation_id FROM new_rows n JOIN old_rows o USING (evaluation_id)
                WHERE n.human_verdict IS DISTINCT FROM o.human_verdict
            );
        BEGIN
            IF reviewed <> '{}' THEN
                INSERT INTO hourly_counts
                    SELECT f.hour, f.device_class, f.status, f.label, x.human_verdict, sum(x.sign)
                    FROM verdicts v JOIN verdict_facts f USING (verdict_id)
                         JOIN (SELECT evaluation_id, coalesce(human_verdict, '') AS human_verdict, -1 AS sign
                               FROM old_rows
                               UNION ALL
                               SELECT evaluation_id, coalesce(human_verdict, ''), 1 FROM new_rows) x
                         ON x.evaluation_id = v.evaluation_id
                    WHERE v.is_current AND v.evaluation_id = ANY (reviewed)
                    GROUP BY 1, 2, 3, 4, 5;
                PERFORM assay_refresh_attempts(reviewed, '{}');
                PERFORM pg_notify('assay_live', 'evaluations');
            END IF;
            RETURN NULL;
        END $$
    """)
    rows = "OLD TABLE AS old_rows NEW TABLE AS new_rows"
    _trigger("evaluations", "updated", "UPDATE", rows, "assay_evaluations_reviewed")


def _finding_triggers() -> None:
    op.execute("""
        CREATE FUNCTION assay_findings_added() RETURNS trigger
        LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO hourly_findings
                SELECT f.hour, f.detector, f.version, f.label, count(*)
                FROM finding_facts f
                WHERE f.is_current AND f.finding_id = ANY (ARRAY(SELECT finding_id FROM new_rows))
                GROUP BY 1, 2, 3, 4;
            RETURN NULL;
        END $$
    """)
    op.execute("""
        CREATE FUNCTION assay_finding_leaves() RETURNS trigger
        LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO hourly_findings
                SELECT f.hour, f.detector, f.version, f.label, -1
                FROM finding_facts f WHERE f.is_current AND f.finding_id = OLD.finding_id;
            RETURN OLD;
        END $$
    """)
    _trigger("findings", "inserted", "INSERT", "NEW TABLE AS new_rows", "assay_findings_added")
    op.execute("""
        CREATE TRIGGER assay_leaves BEFORE DELETE ON findings FOR EACH ROW EXECUTE FUNCTION assay_finding_leaves()
    """)


def _turn_triggers() -> None:
    """The same candidate may be asked for by turn after turn: a turn may find its
    evaluation done.
    """
    op.execute("""
        CREATE FUNCTION assay_turns_changed() RETURNS trigger
        LANGUAGE plpgsql AS $$
        DECLARE
            job_ids uuid[] := '{}';
            turn_ids uuid[] := '{}';
        BEGIN
            IF TG_OP <> 'INSERT' THEN
                turn_ids := ARRAY(SELECT turn_id FROM old_rows);
                job_ids := ARRAY(SELECT job_id FROM old_rows WHERE job_id IS NOT NULL);
            END IF;
            IF TG_OP <> 'DELETE' THEN
                turn_ids := turn_ids || ARRAY(SELECT turn_id FROM new_rows);
                job_ids := job_ids || ARRAY(SELECT job_id FROM new_rows WHERE job_id IS NOT NULL);
            END IF;
            PERFORM assay_refresh_attempts(
                ARRAY(SELECT evaluation_id FROM evaluations WHERE job_id = ANY (job_ids)), turn_ids
            );
            PERFORM pg_notify('assay_live', 'trajectories');
            RETURN NULL;
        END $$
    """)
    _trigger("turns", "inserted", "INSERT", "NEW TABLE AS new_rows", "assay_turns_changed")
    _trigger(
        "turns",
        "updated",
        "UPDATE",
        "OLD TABLE AS old_rows NEW TABLE AS new_rows",
        "assay_turns_changed",
    )
    _trigger("turns", "deleted", "DELETE", "OLD TABLE AS old_rows", "assay_turns_changed")


def _trigger(table: str, name: str, event: str, rows: str, function: str) -> None:
    op.execute(f"""
        CREATE TRIGGER assay_{name} AFTER {event} ON {table} REFERENCING {rows}
        FOR EACH STATEMENT EXECUTE FUNCTION {function}()
    """)


def _notices() -> None:
    """Notify listeners of a change; they read the changed rows themselves."""
    op.execute("""
        CREATE FUNCTION assay_notice() RETURNS trigger
        LANGUAGE plpgsql AS $$
        BEGIN
            PERFORM pg_notify('assay_live', TG_TABLE_NAME);
            RETURN NULL;
        END $$
    """)
    for table in NOTICED:
        op.execute(f"""
            CREATE TRIGGER assay_notice AFTER INSERT OR UPDATE OR DELETE ON {table}
            FOR EACH STATEMENT EXECUTE FUNCTION assay_notice()
        """)
