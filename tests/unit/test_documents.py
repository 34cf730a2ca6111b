"""The documents hold: links lead somewhere, commands exist with their options,
tables are complete.
"""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import click
import pytest

from app.cli import main
from app.detectors import DETECTORS
from app.domain.evaluation import PROTOCOL
from app.domain.job import REWARD_BUDGET_S, JobOptions
from app.domain.policy import POLICIES
from app.domain.reward import DEFAULT, REWARDS
from app.settings import Settings
from tests import language
from workers.sandbox import escape_attempts

ROOT = language.ROOT
README_BYTES = 8_000
REQUIRED = [
    "app",
    "app/cli",
    "app/web",
    "app/web/compat/kernelgym",
    "app/integrations",
    "app/export",
    "app/detectors",
    "workers",
    "workers/referee",
    "workers/sandbox",
    "workers/training",
    "app/domain/credit",
    "tests",
    "tests/bench",
    "tests/zoo",
]


DOCUMENTS = language.documents()


def each(paths: list[Path]) -> list:
    return [pytest.param(path, id=str(path.relative_to(ROOT))) for path in paths]


def test_every_package_that_needs_one_has_a_readme():
    assert [name for name in REQUIRED if not (ROOT / name / "README.md").is_file()] == []


def test_root_readme_is_short_and_begins_with_its_two_commands():
    text = (ROOT / "README.md").read_text()
    assert len(text.encode()) <= README_BYTES
    assert re.findall(r"^    (\./dev \w+)", text, re.M)[:2] == ["./dev demo", "./dev test"]


@pytest.mark.parametrize("path", each(DOCUMENTS))
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if re.match(r"https?:|mailto:", target):
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        if there.is_dir():
            there = there / "README.md"
        assert there.exists(), f"{target}: no {there}"
        if anchor:
            assert anchor in {
                _anchor(line) for line in there.read_text().splitlines() if line.startswith("#")
            }


def _anchor(heading: str) -> str:
    """GitHub's id of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lstrip("#").strip().lower()).replace(" ", "-")


def commands(text: str, program: str) -> Iterator[list[str]]:
    """Arguments of `program` in indented blocks and code spans: placeholders,
    redirections and comments cut off.
    """
    spans = re.findall(r"^ {4,}(?:\$ )?(.+)$", text, re.M) + re.findall(r"`([^`\n]+)`", text)
    for span in spans:
        for part in re.split(r"&&|;|\||>|  +|(?<=\s)#", span):
            if match := re.match(rf"\s*(?:{program})\s+(.*)", part):
                yield shlex.split(match[1].replace("[", " ").replace("]", " ").replace("'", " "))


@pytest.mark.parametrize("path", each(DOCUMENTS))
def test_assay_commands_and_their_options_exist(path):
    for arguments in commands(path.read_text(), "assay"):
        check_command(arguments)


def check_command(arguments: list[str]) -> None:
    command: click.Command = main
    context = click.Context(main, info_name="assay")
    for word in arguments:
        if word.startswith("--"):
            known = {
                name
                for one in command.get_params(context)
                for name in [*one.opts, *one.secondary_opts]
            }
            assert word.partition("=")[0] in known, (
                f"assay {' '.join(arguments)}: unknown option {word}"
            )
        elif isinstance(command, click.Group) and re.fullmatch(r"[a-z][a-z-]*", word):
            child = command.get_command(context, word)
            assert child is not None, f"assay {' '.join(arguments)}: unknown command {word}"
            command = child


def test_a_misspelt_command_is_noticed():
    with pytest.raises(AssertionError, match="unknown option --perfile"):
        check_command(["eval", "REF", "CANDIDATE", "--perfile", "full"])
    with pytest.raises(AssertionError, match="unknown command evl"):
        check_command(["evl"])
    assert list(commands("    assay eval A B [--json]   # one\n`assay zoo`", "assay")) == [
        ["eval", "A", "B", "--json"],
        ["zoo"],
    ]


@pytest.mark.parametrize("path", each(DOCUMENTS))
def test_modules_that_are_run_exist(path):
    for arguments in commands(path.read_text(), "(?:time )?(?:\\S*/)?python -m"):
        module = arguments[0]
        if module not in {"venv", "pip"}:
            found = find_spec(module)
            assert found is not None, f"python -m {module}"
            if found.origin is not None and module.partition(".")[0] in {"app", "workers", "tests"}:
                run = (
                    Path(found.origin).with_name("__main__.py")
                    if found.submodule_search_locations
                    else found.origin
                )
                source = Path(run).read_text()
                unknown = [
                    word
                    for word in arguments
                    if word.startswith("--") and f'"{word}"' not in source
                ]
                assert unknown == [], f"python -m {module}: unknown options {unknown}"


def test_dev_commands_exist():
    usage = subprocess.run(
        ["bash", ROOT / "dev", "help"], check=True, capture_output=True, text=True
    ).stdout
    own = set(re.findall(r"\./dev (\w+)", usage))
    for path in DOCUMENTS:
        for arguments in commands(path.read_text(), r"\./dev"):
            verb = arguments[0]
            if verb not in own and verb != "VERB":
                check_command(arguments)
            for word in arguments[1:] if verb == "test" else []:
                assert "/" not in word or (ROOT / word).exists(), f"./dev test {word}"


@pytest.mark.parametrize("path", each(DOCUMENTS))
def test_files_that_are_named_exist(path):
    for name in re.findall(r"`((?:app|workers|tests|migrations)/[\w./-]+?)/?`", path.read_text()):
        assert (ROOT / name).exists() or (ROOT / f"{name}.py").exists(), name


def detector_rows() -> dict[str, list[str]]:
    text = (ROOT / "app/detectors/README.md").read_text()
    section = text.partition("## Detectors\n")[2].partition("\n## ")[0]
    cells = [
        line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")
    ]
    return {row[0].strip("`"): row for row in cells}


def test_detector_table_is_complete_and_sorted():
    assert list(detector_rows()) == sorted(DETECTORS)


@pytest.mark.parametrize("name", sorted(DETECTORS))
def test_detector_row_states_labels_and_thresholds(name):
    module = sys.modules[type(DETECTORS[name]).__module__]
    assert module.__file__ is not None
    source = Path(module.__file__).read_text()
    _, ways, evidence, threshold, label = detector_rows()[name]
    proposed = set(re.findall(r"\bLabel\.([A-Z]+)\b", source))
    words = {"CLEAN": "information", "SUSPECT": "suspect", "HACK": "hack"}
    expected = {words[one] for one in proposed}
    assert {one for one in words.values() if re.search(rf"\b{one}\b", label)} == expected
    for constant, value in vars(module).items():
        if constant.isupper() and isinstance(value, int | float) and name != "static_hints":
            number = "1/3" if value == 1 / 3 else f"{value:g}"
            assert re.search(rf"(?<![\d./]){re.escape(number)}(?!\.?\d)", f"{threshold} {label}"), (
                f"{constant} = {number} is not in the row of {name}"
            )
    assert evidence
    assert ways == "–" or re.fullmatch(r"\d[a-z]?(, \d[a-z]?)*", ways)


def test_zoo_files_that_are_named_exist():
    text = (ROOT / "app/detectors/README.md").read_text().partition("## Coverage")[2] + "".join(
        line
        for line in (ROOT / "README.md").read_text().splitlines(True)
        if re.match(r"\| .* \| \d+ \|", line)
    )
    stems = {
        re.sub(r"_(triton|torch|cuda)$", "", path.stem)
        for path in (ROOT / "tests/zoo/hacks").glob("*.py")
    }
    stems |= {path.stem for path in (ROOT / "tests/zoo").glob("*/*.py")}
    named = set(re.findall(r"`([a-z_]+)`", text)) - {"assay"}
    assert named - stems == set()
    assert len(named) > 50


def test_constants_that_documents_quote_are_current():
    readme = (ROOT / "README.md").read_text()
    assert f'"protocol": "{PROTOCOL}"' in readme
    assert f"(`{PROTOCOL}`)" in (ROOT / "workers/referee/README.md").read_text()
    attempts = f"{len(escape_attempts.ACTS)}"
    assert f"attempts {attempts} escapes" in readme
    assert (
        f"attempting {attempts} forbidden acts" in (ROOT / "workers/sandbox/README.md").read_text()
    )
    cli = (ROOT / "app/cli/README.md").read_text()
    assert f"device time in seconds (default {JobOptions().timing_budget_s:g})" in cli
    assert f"timed for {REWARD_BUDGET_S:g} s" in (ROOT / "app/integrations/README.md").read_text()
    assert f"`{DEFAULT}` (default)" in (ROOT / "app/integrations/README.md").read_text()


def test_every_setting_policy_and_reward_is_documented():
    settings = (ROOT / "app/cli/README.md").read_text()
    names = [f"ASSAY_{name.upper()}" for name in Settings.__dataclass_fields__]
    assert [name for name in names if f"`{name}`" not in settings] == []
    detectors = (ROOT / "app/detectors/README.md").read_text()
    assert [name for name in POLICIES if f"| `{name}`" not in detectors] == []
    integrations = (ROOT / "app/integrations/README.md").read_text()
    assert [name for name in REWARDS if f"| `{name}`" not in integrations] == []


def test_the_map_of_the_referee_names_files_that_exist():
    folder = ROOT / "workers" / "referee"
    text = (folder / "__init__.py").read_text()
    named = re.findall(r"^    ((?:\w+/)?\w+\.py)  ", text, re.MULTILINE)
    beside = re.findall(r"\((\w+\.py)\)", text)
    assert len(named) > 20
    assert [name for name in named if not (folder / name).is_file()] == []
    assert [name for name in beside if not list(folder.glob(f"*/{name}"))] == []


def test_python_examples_in_docstrings_of_modules_are_python():
    blocks = re.compile(r"(?:^    .*\n?|^ *\n)+", re.MULTILINE)
    starts = re.compile(r"(?:#.*\n)*(?:from|import|with) ")
    examples = [
        (path, textwrap.dedent(found).strip("\n"))
        for path in language.sources(ROOT / tree for tree in ("app", "workers"))
        for found in blocks.findall(ast.get_docstring(ast.parse(path.read_text())) or "")
    ]
    python = [(path, text) for path, text in examples if starts.match(text)]
    assert len(python) > 5
    for path, text in python:
        compile(text, str(path), "exec", ast.PyCF_ONLY_AST)
