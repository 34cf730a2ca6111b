"""Help of every command: an example, a word on every option, and lists in which nothing is cut."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from app import cli


def walk(
    command: click.Command, path: str, above: click.Command
) -> Iterator[tuple[str, click.Command, click.Command]]:
    yield path, command, above
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from walk(found, f"{path} {name}", command)


COMMANDS = {path: (command, above) for path, command, above in walk(cli.main, "assay", cli.main)}


def help_of(command: click.Command, path: str) -> str:
    return command.get_help(
        click.Context(command, info_name=path, max_content_width=110, terminal_width=110)
    )


@pytest.mark.parametrize(
    "path", [path for path, (one, _) in COMMANDS.items() if not isinstance(one, click.Group)]
)
def test_every_command_has_an_example(path: str) -> None:
    command, above = COMMANDS[path]
    shown = [
        line.strip() for line in (help_of(command, path) + "\n" + help_of(above, path)).splitlines()
    ]
    assert any(path in line for line in shown if not line.startswith("Usage:")), shown


SERVING = {
    "assay demo",
    "assay up",
    "assay collect serve",
    "assay endpoint scripted",
    "assay workers run",
}
"""Commands that run until they are stopped, and the demo, which is for people."""


@pytest.mark.parametrize(
    "path", [path for path, (one, _) in COMMANDS.items() if not isinstance(one, click.Group)]
)
def test_every_command_that_answers_has_json(path: str) -> None:
    command, _ = COMMANDS[path]
    assert any("--json" in option.opts for option in command.params) == (path not in SERVING)


@pytest.mark.parametrize("path", COMMANDS)
def test_every_option_is_explained(path: str) -> None:
    command, _ = COMMANDS[path]
    options = [each for each in command.params if isinstance(each, click.Option)]
    assert [each.opts[0] for each in options if not each.help] == []


def test_the_list_of_verbs_imports_no_verb() -> None:
    program = (
        "import sys; from app import cli\n"
        "with open('/dev/null', 'w') as sys.stdout:\n"
        "    try: cli.main(['--help'])\n"
        "    except SystemExit: pass\n"
        "print(*[name for name in sys.modules if name.startswith('app.cli.')], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr.split() == ["app.cli.errors", "app.cli.group"]


@pytest.mark.parametrize(
    "path", [path for path, (one, _) in COMMANDS.items() if isinstance(one, click.Group)]
)
def test_nothing_is_cut_in_a_list_of_commands(path: str) -> None:
    listed = help_of(COMMANDS[path][0], path).partition("Commands:")[2]
    assert "..." not in listed
    assert listed.strip().endswith(".")


def test_every_example_begins_a_line_of_its_own() -> None:
    """An example is copied line by line."""
    inside = re.compile(rf"^(?! *ASSAY_).*[^;:(\s] +assay (?:{'|'.join(cli.VERBS)}) ")
    merged = [
        line
        for path, (command, _) in COMMANDS.items()
        for line in help_of(command, path).partition("Options:")[0].splitlines()
        if inside.match(line)
    ]
    assert merged == []


@pytest.mark.parametrize("path", COMMANDS)
def test_gpu_is_a_class_and_device_one_device(path: str) -> None:
    listed = help_of(COMMANDS[path][0], path)
    assert not re.search(r"--device\s(?!NODE)", listed.partition("Options:")[2])
    assert (
        re.search(r"--gpu (TEXT|CLASS|\[cpu)", listed)
        or "--gpu " not in listed.partition("Options:")[2]
    )


@pytest.mark.parametrize("verb", ["zoo", "workers run"])
def test_earlier_names_of_options_work_and_are_not_listed(verb: str) -> None:
    command, _ = COMMANDS[f"assay {verb}"]
    for name in ("--gpu", "--device"):
        context = command.make_context(verb, [name, "h200"])
        assert context.params["device_class"] == "h200"
    assert "--device" not in help_of(command, verb)
