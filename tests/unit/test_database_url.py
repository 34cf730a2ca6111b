"""The URL of a database as libpq reads it, which is not as SQLAlchemy writes it."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa
from psycopg.conninfo import conninfo_to_dict

from app.embedded.os_user import Account
from app.embedded.servers import Postgres
from app.store.postgres import migrate
from app.store.postgres.database import Database, DatabaseUnavailableError, libpq_url


@pytest.mark.parametrize(
    "folder", ["/var/tmp/assay-0", "/tmp/state dir/postgres", "/tmp/a+b %20", "/tmp/ü&x=1"]
)
@pytest.mark.parametrize("password", ["0f3c", "a+b c%20?/&"])
def test_libpq_and_sqlalchemy_read_the_same_folder_and_password(folder: str, password: str) -> None:
    url = sa.URL.create(
        "postgresql+psycopg",
        username="assay",
        password=password,
        database="d",
        query={"host": folder},
    )
    read = conninfo_to_dict(libpq_url(url))
    assert (read["host"], read["password"], read["dbname"], read["user"]) == (
        folder,
        password,
        "d",
        "assay",
    )


def test_a_state_folder_may_have_a_space(tmp_path: Path) -> None:
    server = Postgres(tmp_path / "state dir", Account(name="root", uid=0, gid=0), "p", "a")
    host = str(tmp_path / "state dir" / "postgres")
    assert sa.make_url(server.url).query["host"] == host
    assert conninfo_to_dict(server._url("assay", "postgres"))["host"] == host


@pytest.mark.parametrize("text", ["s3cret", "://s3cret", "postgresql+psycopg:/s3cret"])
def test_a_text_that_is_no_url_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"^database_url: expected postgresql\+psycopg://…"
    ) as told:
        Database(text)
    assert "s3cret" not in str(told.value)


def test_a_migration_without_a_server_says_which_in_one_line() -> None:
    with pytest.raises(DatabaseUnavailableError) as told:
        migrate.upgrade("postgresql+psycopg://u:s3cret@127.0.0.1:1/x")
    assert str(told.value).startswith("PostgreSQL at postgresql+psycopg://u:***@127.0.0.1:1/x: ")
