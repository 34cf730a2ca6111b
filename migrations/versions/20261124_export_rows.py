"""Rows of datasets are checked a statement at a time.

A foreign key is checked row by row, and locks the evaluation that each row names: of
86,000 rows that took 0.7 s of the 0.9 s in which PostgreSQL stored them, and wrote
every such evaluation's page again.
"""

from __future__ import annotations

from alembic import op

revision = "20261124er"
down_revision = "20261124cc"
branch_labels = None
depends_on = None

REFERENCES = {"exports": "export_id", "evaluations": "evaluation_id"}


def upgrade() -> None:
    for table, column in REFERENCES.items():
        op.drop_constraint(f"fk_export_rows_{column}", "export_rows", type_="foreignkey")
        op.execute(f"""
            CREATE FUNCTION export_rows_keep_{table}() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF EXISTS (SELECT FROM gone JOIN export_rows USING ({column})) THEN
                    RAISE foreign_key_violation USING MESSAGE = 'rows of a dataset rest on these {table}';
                END IF;
                RETURN NULL;
            END $$
        """)
        op.execute(f"""
            CREATE TRIGGER export_rows_keep AFTER DELETE ON {table} REFERENCING OLD TABLE AS gone
            FOR EACH STATEMENT EXECUTE FUNCTION export_rows_keep_{table}()
        """)
    missing = " OR ".join(
        f"EXISTS (SELECT FROM added WHERE NOT EXISTS (SELECT FROM {table} t WHERE t.{column} ="
        f" added.{column}))"
        for table, column in REFERENCES.items()
    )
    op.execute(f"""
        CREATE FUNCTION check_export_rows() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF {missing} THEN
                RAISE foreign_key_violation USING MESSAGE = 'export_rows: expected stored exports and evaluations';
            END IF;
            RETURN NULL;
        END $$
    """)
    op.execute("""
        CREATE TRIGGER check_export_rows AFTER INSERT ON export_rows REFERENCING NEW TABLE AS added
        FOR EACH STATEMENT EXECUTE FUNCTION check_export_rows()
    """)


def downgrade() -> None:
    op.execute("DROP TRIGGER check_export_rows ON export_rows")
    op.execute("DROP FUNCTION check_export_rows()")
    for table, column in REFERENCES.items():
        op.execute(f"DROP TRIGGER export_rows_keep ON {table}")
        op.execute(f"DROP FUNCTION export_rows_keep_{table}()")
        op.create_foreign_key(f"fk_export_rows_{column}", "export_rows", table, [column], [column])
