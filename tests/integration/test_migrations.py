"""The tables are made from nothing, on every PostgreSQL that is to be found, and
equal `app.store.tables`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.script import ScriptDirectory

from app.cli import errors
from app.domain import ids
from app.embedded import Services, binaries, os_user, servers
from app.settings import Settings
from app.store import tables
from app.store.postgres import migrate, schema_revisions
from tests.conftest import administrate, drop_database, fast_folder


def installed() -> list[Path]:
    """One folder of binaries for each major version."""
    folders = [folder for folder in binaries.postgres_folders() if (folder / "initdb").exists()]
    return list({binaries.postgres_major(folder): folder for folder in reversed(folders)}.values())


@pytest.fixture(params=installed(), ids=lambda folder: f"pg{binaries.postgres_major(folder)}")
def url(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An empty database on a server of its own."""
    monkeypatch.setattr(binaries, "postgres", lambda major=None: request.param)
    state = fast_folder("assay-test-")
    (state / "log").mkdir()
    server = servers.Postgres(state, os_user.choose(), "secret", "other")
    server.start()
    yield server.url
    server.stop()
    shutil.rmtree(state)


def test_from_nothing_and_back(url: str) -> None:
    migrate.upgrade(url)
    migrate.check(url)
    migrate.upgrade(url)
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        storage = (
            "SELECT attstorage FROM pg_attribute WHERE attrelid = 'profiles'::regclass AND attname"
            " = 'body'"
        )
        assert connection.execute(sa.text(storage)).scalar_one() == "e"
        assert constraints(connection) == constraints_of_metadata()
    migrate.downgrade(url, "base")
    with engine.connect() as connection:
        assert set(sa.inspect(connection).get_table_names()) == {"alembic_version"}


def constraints(connection: sa.Connection) -> set[str]:
    """Checks: `alembic check` does not compare them."""
    checks = (
        "SELECT conname FROM pg_constraint WHERE contype = 'c' AND connamespace ="
        " 'public'::regnamespace"
    )
    return set(connection.execute(sa.text(checks)).scalars())


def constraints_of_metadata() -> set[str]:
    return {
        str(constraint.name)
        for table in tables.metadata.tables.values()
        for constraint in table.constraints
        if isinstance(constraint, sa.CheckConstraint)
    }


def test_tables_of_a_newer_version_are_left_alone(settings: Settings) -> None:
    url = settings.database_url
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = 'future'"))
    with pytest.raises(migrate.NewerDatabaseError, match="revision future") as refused:
        migrate.upgrade(url)
    assert "unexpected" not in errors.translate(refused.value).message
    with engine.connect() as connection:
        assert (
            connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar_one()
            == "future"
        )


def test_a_revision_that_does_not_exist_is_the_callers_mistake(settings: Settings) -> None:
    with pytest.raises(ValueError, match="'nowhere'"):
        migrate.upgrade(settings.database_url, "nowhere")


def test_the_last_revision_is_found_without_alembic() -> None:
    assert (
        schema_revisions.head()
        == ScriptDirectory.from_config(migrate.config("")).get_current_head()
    )


@pytest.mark.parametrize("module", ["workers.worker.celery_app", "workers.generator.app"])
@pytest.mark.parametrize("theirs", ["'future'", "NULL"])
def test_a_worker_serves_no_tables_of_another_version(
    settings: Settings, module: str, theirs: str
) -> None:
    engine = sa.create_engine(settings.database_url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM alembic_version"))
        connection.execute(
            sa.text(f"INSERT INTO alembic_version SELECT {theirs} WHERE {theirs} IS NOT NULL")
        )
    command = [sys.executable, "-m", "celery", "--quiet", "-A", module, "worker"]
    environment = os.environ | replace(settings, endpoint="endpoint").to_env()
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == errors.INFRASTRUCTURE, done.stderr
    assert f"expected tables of revision {schema_revisions.head()}" in done.stderr


def test_two_processes_at_once_migrate_once(services: Services) -> None:
    template = sa.make_url(services.settings.database_url or "")
    name = f"test_{ids.new_id().hex}"
    administrate(template, f"CREATE DATABASE {name}")
    url = template.set(database=name).render_as_string(hide_password=False)
    program = "import sys; from app.store.postgres import migrate; migrate.upgrade(sys.argv[1])"
    racing = [subprocess.Popen([sys.executable, "-c", program, url]) for _ in range(3)]
    codes = [process.wait() for process in racing]
    drop_database(template, name)
    assert codes == [0, 0, 0]
