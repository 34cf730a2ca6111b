"""Commands of the compose file, each parsed by the program that it starts: an engine
would find a slip at its start.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from app import cli
from app.web import serve

ROOT = Path(__file__).parents[2]
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())[
    "services"
]
OF_IMAGE = ["assay"]
"""Entry point of Assay's images."""


def interpolated(text: str) -> str:
    """Compose's own substitution: defaults for variables, one dollar for two."""
    with_defaults = re.sub(r"(?<!\$)\$\{\w+:-([^}]*)\}", r"\1", text)
    assert not re.search(r"(?<!\$)\$[\w{]", with_defaults), (
        "a variable of Compose without a default"
    )
    return with_defaults.replace("$$", "$")


def argv(name: str) -> list[str]:
    """Command line of the service's container."""
    service = SERVICES[name]
    entry = service.get("entrypoint", OF_IMAGE if "build" in service else [])
    return [interpolated(part) for part in [*entry, *service["command"]]]


def script_of(name: str) -> str | None:
    """The shell script that the service runs; None for a plain command."""
    found = argv(name)
    return found[2] if found[0] in ("sh", "bash") and found[1] == "-c" else None


def assay_commands() -> Iterator[tuple[str, list[str]]]:
    """Service and arguments of every call of `assay`."""
    for name in SERVICES:
        script = script_of(name)
        if script is None:
            if argv(name)[0] == "assay":
                yield name, argv(name)[1:]
            continue
        for call in re.findall(r"\bassay (.+)", script):
            if name != "postgres":  # its role and database have this name
                yield name, shlex.split(call)


COMMANDS = list(assay_commands())


@pytest.mark.parametrize("name", SERVICES)
def test_scripts_are_scripts(name: str) -> None:
    script = script_of(name)
    if script is not None:
        shell = argv(name)[0]
        subprocess.run([shell, "-n"], input=script, text=True, check=True, stderr=subprocess.STDOUT)


def test_every_service_of_the_images_runs_a_command_of_assay_or_the_web() -> None:
    built = {name for name, service in SERVICES.items() if "build" in service}
    assert {name for name, _ in COMMANDS} == built - {"web"}


@pytest.mark.parametrize(("name", "arguments"), COMMANDS)
def test_commands_of_assay_are_parsed(
    name: str, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "samples").symlink_to(ROOT / "tests" / "zoo")  # the image's own
    monkeypatch.chdir(tmp_path)
    command: click.Command = cli.main
    context = click.Context(command, info_name="assay")
    rest = arguments
    while isinstance(command, click.Group) and rest:
        found = command.get_command(context, rest[0])
        assert found is not None, f"{name}: assay {' '.join(arguments)}"
        command, rest = found, rest[1:]
    with command.make_context(command.name, list(rest), parent=context):
        pass


def test_the_webs_command_is_parsed() -> None:
    entry, arguments = argv("web")[:3], argv("web")[3:]
    assert entry == ["python", "-m", serve.MODULE]
    with serve.main.make_context("web", list(arguments)) as context:
        assert (context.params["host"], context.params["port"]) == ("0.0.0.0", 8000)


def test_a_service_that_must_be_healthy_has_a_check_and_one_that_must_have_ended_ends() -> None:
    for name, service in SERVICES.items():
        for other, terms in service.get("depends_on", {}).items():
            needed = SERVICES[other]
            if terms["condition"] == "service_healthy":
                assert "test" in needed["healthcheck"], f"{name} waits for {other}"
            else:
                assert terms["condition"] == "service_completed_successfully"
                assert needed["restart"] == "no", f"{name} waits for {other}"


def test_a_frozen_process_can_be_killed_by_its_watchdog() -> None:
    """Process 1 of a container cannot be killed from inside."""
    for name in SERVICES:
        if name == "web" or argv(name)[1:2] in (["workers"], ["collect"]):
            assert SERVICES[name]["init"] is True, name
            assert SERVICES[name]["restart"] == "unless-stopped", name
