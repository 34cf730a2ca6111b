"""The compose file and the Dockerfile, read as text: no engine is needed to see a
missing password, a loose worker.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.settings import Settings
from app.web import serve

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docker-compose.yml").read_text()
DOCKERFILE = (ROOT / "Dockerfile").read_text()
EXAMPLE = (ROOT / ".env.example").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
WORKERS = [name for name in SERVICES if name.startswith("worker-")]
GPU_WORKERS = [name for name in WORKERS if "gpu" in name]


def test_passwords_have_no_default() -> None:
    for name in ("POSTGRES_PASSWORD", "REDIS_PASSWORD", "ADMIN_PASSWORD"):
        used = TEXT.count("${" + name)
        assert used >= 1
        assert TEXT.count("${" + name + ":?") == used
        assert f"\n{name}=\n" in EXAMPLE


def test_the_example_names_every_variable_and_no_other() -> None:
    used = set(re.findall(r"(?<!\$)\$\{([A-Z_]+)", TEXT)) | {"COMPOSE_PROFILES"}
    assert used == set(re.findall(r"^([A-Z_]+)=", EXAMPLE, re.MULTILINE))
    defaults = dict(re.findall(r"(?<!\$)\$\{([A-Z_]+):-([^}]*)\}", TEXT))
    example = dict(re.findall(r"^([A-Z_]+)=(.*)$", EXAMPLE, re.MULTILINE))
    assert {name: example[name] for name in defaults} == defaults


def test_settings_of_the_services_are_settings() -> None:
    for service in SERVICES.values():
        named = {key: "1" for key in service.get("environment", {}) if key.startswith("ASSAY_")}
        Settings.from_env(named | ({"ASSAY_REWARD": "dr_kernel"} if named else {}))


def test_the_role_of_web_and_workers_is_no_superuser() -> None:
    postgres = SERVICES["postgres"]
    assert "POSTGRES_USER" not in postgres["environment"]  # which would be the superuser
    (script,) = postgres["command"]
    assert "CREATE ROLE assay LOGIN PASSWORD" in script
    assert "export POSTGRES_USER=postgres" in script
    assert "SUPERUSER" not in script


def test_only_the_web_is_reachable_and_only_from_this_host() -> None:
    assert {name for name, service in SERVICES.items() if "ports" in service} == {"web"}
    assert SERVICES["web"]["ports"] == ["${HTTP_BIND:-127.0.0.1:8000}:8000"]
    assert COMPOSE["networks"]["services"]["internal"] is True
    outside = {
        name: service["networks"]
        for name, service in SERVICES.items()
        if service["networks"] != ["services"]
    }
    assert outside == {"web": ["services", "front"], "generator": ["services", "models"]}


def test_keys_of_endpoints_reach_only_the_process_that_calls_them() -> None:
    assert {name for name, service in SERVICES.items() if "env_file" in service} == {"generator"}
    assert SERVICES["generator"]["env_file"] == [{"path": "endpoints.env", "required": False}]
    assert SERVICES["generator"]["command"] == ["collect", "serve"]
    assert "endpoints.env\n" in (ROOT / ".gitignore").read_text()


def test_the_web_waits_until_a_user_can_log_in() -> None:
    assert SERVICES["web"]["depends_on"]["admin"] == {"condition": "service_completed_successfully"}
    assert "ADMIN_PASSWORD" in SERVICES["admin"]["environment"]
    assert not any(
        "ADMIN_PASSWORD" in service["environment"]
        for name, service in SERVICES.items()
        if name != "admin"
    )


@pytest.mark.parametrize("name", SERVICES)
def test_candidates_gain_no_privileges_and_cannot_fork_without_end(name: str) -> None:
    service = SERVICES[name]
    assert "no-new-privileges:true" in service["security_opt"]
    assert service["pids_limit"] <= (8192 if name in GPU_WORKERS else 2048)
    assert not service.get("privileged")


@pytest.mark.parametrize("name", [name for name in SERVICES if name != "postgres"])
def test_everything_but_the_database_drops_its_capabilities_and_cannot_write(name: str) -> None:
    assert SERVICES[name]["cap_drop"] == ["ALL"]
    assert SERVICES[name]["read_only"] is True


def test_the_web_may_end_its_requests_and_hold_its_connections() -> None:
    assert SERVICES["web"]["stop_grace_period"] == "20s"
    assert serve.STOP_S + 2 * serve.LINGER_S < 20  # seconds until it ends by itself
    assert SERVICES["web"]["ulimits"]["nofile"] >= 2 * serve.CONNECTIONS


def test_datasets_lie_on_a_volume_that_the_web_may_write() -> None:
    folder = SERVICES["web"]["environment"]["ASSAY_STATE_DIR"]
    assert SERVICES["web"]["volumes"] == [f"datasets:{folder}"]
    assert "datasets" in COMPOSE["volumes"]
    assert f"install --directory --owner assay {folder}\n" in DOCKERFILE


def test_a_worker_serves_the_device_that_its_health_check_asks_about() -> None:
    assert 'CMD ["assay", "workers", "alive"]\n' in DOCKERFILE
    for name in WORKERS:
        assert SERVICES[name]["command"] == ["workers", "run"]


def test_workers_keep_what_the_sandbox_needs() -> None:
    assert {name for name, service in SERVICES.items() if "cap_add" in service} == set(WORKERS)
    for name in WORKERS:
        assert SERVICES[name]["cap_add"] == ["SETUID", "SETGID", "CHOWN", "KILL", "SYS_ADMIN"]
        assert "user" not in SERVICES[name]
        assert any(
            mount.startswith("/var/tmp:") for mount in SERVICES[name]["tmpfs"]
        )  # where leases are


def test_one_profile_brings_so_many_gpus_and_each_worker_one() -> None:
    for count in (1, 2, 4, 8):
        chosen = [name for name in GPU_WORKERS if f"gpu{count}" in SERVICES[name]["profiles"]]
        assert chosen == [f"worker-gpu{index}" for index in range(count)]
    for index, name in enumerate(GPU_WORKERS):
        (device,) = SERVICES[name]["deploy"]["resources"]["reservations"]["devices"]
        assert (device["driver"], device["device_ids"]) == ("nvidia", [str(index)])
        assert SERVICES[name]["environment"]["ASSAY_DEVICE_INDEX"] == str(index)
        assert SERVICES[name]["environment"]["ASSAY_DEVICE_CLASS"] == "${GPU_CLASS:-h200}"
        assert SERVICES[name]["environment"]["CUDA_VISIBLE_DEVICES"] == "0"
    assert SERVICES["worker-cpu"]["profiles"] == ["cpu"]
    assert {name for name, service in SERVICES.items() if "profiles" in service} == set(WORKERS)


def test_images_are_built_from_stages_that_exist() -> None:
    stages = {line.split()[-1] for line in DOCKERFILE.splitlines() if line.startswith("FROM ")}
    built = {service["build"]["target"] for service in SERVICES.values() if "build" in service}
    assert built == {"web", "worker"}
    assert built <= stages


def test_the_sample_is_in_the_image() -> None:
    sources = [path for path in SERVICES["sample"]["command"] if path.startswith("samples/")]
    for path in sources:
        assert (ROOT / path.replace("samples/", "tests/zoo/")).is_file()
        assert f"COPY tests/zoo/{Path(path).parent.name} {Path(path).parent}\n" in DOCKERFILE


def test_no_cheat_is_in_an_image() -> None:
    copied = [line.split()[1] for line in DOCKERFILE.splitlines() if line.startswith("COPY tests")]
    assert sorted(copied) == ["tests/zoo/honest", "tests/zoo/problems"]


def test_the_torch_of_the_image_is_the_torch_of_the_bootstrap() -> None:
    bootstrap = (ROOT / "dev").read_text()
    for name in ("TORCH", "TRITON"):
        pin = next(
            line.split("=")[1].split()[0]
            for line in bootstrap.splitlines()
            if line.startswith(f"{name}=")
        )
        assert f"ARG {name}={pin}\n" in DOCKERFILE


def test_no_service_fills_the_disk_with_its_log() -> None:
    for name, service in SERVICES.items():
        assert service.get("logging", {}).get("options") == {
            "max-size": "64m",
            "max-file": "3",
        }, name
