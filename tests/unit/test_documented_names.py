"""The names in documents exist: files, classes of modules, identifiers, settings."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from app.domain.dataset import selection
from app.domain.user import SCOPES
from app.settings import Settings
from app.web import body_limits, connections, serve
from app.web.api import openapi
from tests import language

ROOT = language.ROOT

FOREIGN = frozenset(
    {
        "imperative",
        "einops",
        "max_split_size_mb",
        "CUDA_DEVICE_MAX_COPY_CONNECTIONS",
        "vllm_async_engine",
        "gym",
        "vllm_model",
        "server_url",
        "mcp",
        "library_in",
        "only_unmask_final",
    }
)
"""Names of other projects, placeholders, and the common beginning of several zoo files."""

FILE = re.compile(r"(?<![\w/.-])((?:[\w-]+/)*[a-z_]\w*\.(?:py|c|toml|yml))(?![\w/])")
FOREIGN_FILES = frozenset(
    {
        "vllm_async_engine.py",
        "slime/utils/data.py",
        "slime/utils/mask_utils.py",
        "softmax.py",
        "softmax.toml",
        "resources_servers/kernel_assay/app.py",
    }
)

PROSE = sorted(
    set(language.documents())
    - set((ROOT / "app/domain/collection/prompts").glob("*.md"))
    - {
        ROOT / "CHANGELOG.md",
        *(ROOT / "app/web/static").rglob("*.md"),
    }
)
"""Documents about the code as it is: no prompts and their sources, no history, no licences."""


@cache
def files() -> tuple[Path, ...]:
    """Files of the project that are read as text, documents excluded."""
    found = [
        path for path in ROOT.iterdir() if path.is_file() and path.suffix not in {".md", ".lock"}
    ]
    for top in ("app", "workers", "tests", "migrations", ".github"):
        for suffix in ("py", "js", "html", "toml", "yml", "yaml", "c", "json"):
            found += (ROOT / top).rglob(f"*.{suffix}")
    return tuple(found)


@cache
def identifiers() -> frozenset[str]:
    """Every identifier in those files, and their names."""
    found = {f"ASSAY_{name.upper()}" for name in Settings.__dataclass_fields__}
    for path in files():
        found |= {path.name.partition(".")[0], *re.findall(r"\w+", path.read_text(errors="ignore"))}
    return frozenset(found)


def unknown_names(text: str) -> list[str]:
    """Identifiers in code spans that are nowhere in the project."""
    prose = re.sub(r"^    .*$", "", text, flags=re.MULTILINE)
    spans = re.findall(r"`([^`\n]+)`", prose)
    named = (name for span in spans for name in re.findall(r"[A-Za-z_]\w*", span))
    return sorted(set(named) - identifiers() - FOREIGN)


def unknown_files(text: str, folder: Path) -> list[str]:
    """Files that are neither in the document's folder or below, nor at this path of
    the project, nor a test.
    """
    missing = []
    for name in set(FILE.findall(text)) - FOREIGN_FILES:
        known = (folder / name).exists() or (ROOT / name).exists()
        known = known or ("/" not in name and any(path.name == name for path in files()))
        missing += [] if known else [name]
    return sorted(missing)


def unknown_classes(text: str) -> list[str]:
    """`module.Class` where no module of that name has the class, or imports it."""
    missing = []
    for module, name in set(re.findall(r"(?<![\w./])([a-z_]+)\.([A-Z][a-z]\w+)\b", text)):
        modules = [path for path in files() if path.stem == module or path.parent.name == module]
        if not any(re.search(rf"\b{name}\b", path.read_text(errors="ignore")) for path in modules):
            missing.append(f"{module}.{name}")
    return sorted(missing)


@pytest.mark.parametrize(
    "path", [pytest.param(path, id=str(path.relative_to(ROOT))) for path in PROSE]
)
def test_names_in_documents_exist(path: Path) -> None:
    text = path.read_text()
    assert unknown_names(text) == []
    assert unknown_files(text, path.parent) == []
    assert unknown_classes(text) == []


def test_names_that_do_not_exist_are_noticed() -> None:
    gone = "Taken" + "Out" + "Class"
    text = (
        f"`{gone}` in host/gone_{'away'}.py, made by spawn.{gone}, beside `ProcessHandle` in"
        " process_handle.py"
    )
    assert unknown_names(text) == [gone]
    assert unknown_files(text, ROOT / "workers/referee") == ["host/gone_away.py"]
    assert unknown_classes(text) == [f"spawn.{gone}"]


WEB = (ROOT / "app/web/README.md").read_text()


def test_paths_of_the_api_are_those_in_the_readme_of_the_web() -> None:
    known = {re.sub(r"\{.*?\}", "{}", path) for path in openapi.document()["paths"]}
    table = "".join(line for line in WEB.splitlines(keepends=True) if line.startswith("| "))
    named = {
        re.sub(r"\{.*?\}", "{}", path)
        for path in re.findall(r"(/v1/[a-z]+(?:/\{[^}]*\})?(?::[a-z]+|/[a-z]+)?)", table)
    }
    assert named - known == set()
    nouns = {re.split("[/:]", path)[2] for path in known}
    assert nouns - {re.split("[/:]", path)[2] for path in named} == set()


def test_roles_in_the_readme_of_the_web_have_these_scopes() -> None:
    rows = dict(re.findall(r"^\| (\w+) \| ((?:`\w+`(?:, )?)+) \|$", WEB, re.MULTILINE))
    operator = set(
        map(str, next(scopes for role, scopes in SCOPES.items() if str(role) == "operator"))
    )
    found = {role: set(re.findall(r"\w+", scopes)) for role, scopes in rows.items()}
    expected = {str(role): set(map(str, scopes)) for role, scopes in SCOPES.items()}
    assert found == {role: scopes for role, scopes in expected.items() if role != "admin"}
    assert expected["admin"] == {*operator, "administer"}
    assert "| admin | all of these and `administer` |" in WEB


def test_limits_in_the_readme_of_the_web_are_those_of_the_code() -> None:
    for quoted in (
        f"| header, from its first byte | {connections.HEADER_S:g} s,",
        f"| connection without a request | {connections.IDLE_S:g} s |",
        (
            f"| body | {connections.BODY_S:g} s, and a second more for every"
            f" {connections.BODY_BYTES_PER_S >> 10} KiB |"
        ),
        f"| body | {body_limits.LARGEST_BODY_BYTES >> 20} MB where sources come in,",
        f" {body_limits.USUAL_BODY_BYTES >> 20} MB elsewhere | 413 |",
        f"| response that the client does not take | {connections.SEND_S:g} s |",
        f"| {connections.PER_ADDRESS:,} of {serve.CONNECTIONS:,} |",
        f"lets the rest end for up to {serve.STOP_S:g} s",
    ):
        assert quoted in WEB, quoted


def test_stages_in_the_readme_of_exports_are_those_of_a_selection() -> None:
    text = (ROOT / "app/export/README.md").read_text()
    [listed] = re.findall(r"^`(where · [^`]*)`$", text, re.MULTILINE)
    described = re.findall(
        r"^    ([a-z]+)(?:, ([a-z]+))?   +\S", str(selection.__doc__), re.MULTILINE
    )
    assert re.split(r"\s*·\s*", listed) == [stage for pair in described for stage in pair if stage]
