"""COLLECT: prompt templates: texts with `{placeholder}`s, immutable, known by their hash.

A template has no code.  `{{name}}` stands for the text `{name}`; any other brace is itself, so that
a template can show Python and C++."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from app.domain.backend import BACKENDS
from app.domain.request import MissingError, RequestError
from app.domain.source import source_text

SYSTEM, PROBLEM, FEEDBACK = "system", "problem", "feedback"
_OF_A_PROBLEM = frozenset({"reference", "entry_point", "backend", "device", "kernels", "example"})
PLACEHOLDERS: Mapping[str, frozenset[str]] = {
    SYSTEM: _OF_A_PROBLEM,
    PROBLEM: _OF_A_PROBLEM,
    FEEDBACK: frozenset({"feedback", "turn"}),
}
"""Kind → its placeholders."""
REQUIRED = {
    SYSTEM: frozenset[str](),
    PROBLEM: frozenset({"reference"}),
    FEEDBACK: frozenset({"feedback"}),
}
"""Kind → placeholders without which it says nothing."""

LONGEST_BODY = 200_000
"""Characters of a template at most: more than any model's context is worth."""
SHORTEST_HASH = 6
"""Characters of a hash that name a version."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PLACEHOLDER = re.compile(r"\{\{(?P<literal>[A-Za-z_]\w*)\}\}|\{(?P<name>[A-Za-z_]\w*)\}")
_FOLDER = Path(__file__).parent / "prompts"


@dataclass(frozen=True, kw_only=True)
class Template:
    """One version of a template."""

    name: str
    kind: str
    body: str

    @property
    def sha256(self) -> str:
        """Hash of kind and body, hexadecimal."""
        return hashlib.sha256(f"{self.kind}\0{self.body}".encode()).hexdigest()

    @property
    def ref(self) -> str:
        """Name and hash."""
        return f"{self.name}@{self.sha256}"


def check(template: Template) -> None:
    """Raise RequestError for a bad name or kind, or a placeholder that is unknown or missing."""
    if not NAME.fullmatch(template.name):
        raise RequestError(
            f"name: expected letters, digits, '.', '_' and '-', got {template.name!r}"
        )
    if template.kind not in PLACEHOLDERS:
        raise RequestError(
            f"kind: expected one of {', '.join(PLACEHOLDERS)}, got {template.kind!r}"
        )
    if not 0 < len(template.body) <= LONGEST_BODY:
        raise RequestError(
            f"template: expected 1 to {LONGEST_BODY} characters, got {len(template.body)}"
        )
    if source_text.printable(template.body) != template.body:
        raise RequestError("template: expected text without NUL and lone surrogates")
    used, known = placeholders(template), PLACEHOLDERS[template.kind]
    if unknown := sorted(used - known):
        expected = ", ".join(f"{{{name}}}" for name in sorted(known))
        raise RequestError(
            f"template: unknown placeholder {{{unknown[0]}}}; a {template.kind} template has"
            f" {expected} (write {{{{{unknown[0]}}}}} for the text itself)"
        )
    if missing := sorted(REQUIRED[template.kind] - used):
        raise RequestError(f"template: expected the placeholder {{{missing[0]}}}")


def placeholders(template: Template) -> frozenset[str]:
    """Names of the placeholders that the body has."""
    found = (match["name"] for match in _PLACEHOLDER.finditer(template.body))
    return frozenset(name for name in found if name)


def fill(template: Template, values: Mapping[str, str]) -> str:
    """The text with its placeholders filled.  Text that a value brings is never a placeholder.

    `kernels` and `example` follow from `backend`.  Raises RequestError for a value that is missing.
    """
    known = {**derived(values), **values}

    def value(match: re.Match[str]) -> str:
        if match["literal"]:
            return f"{{{match['literal']}}}"
        if match["name"] not in known:
            raise RequestError(f"template {template.name!r}: no value for {{{match['name']}}}")
        return known[match["name"]]

    return _PLACEHOLDER.sub(value, template.body)


def derived(values: Mapping[str, str]) -> dict[str, str]:
    """Values that follow from others."""
    if "backend" not in values:
        return {}
    backend = values["backend"]
    return {"kernels": BACKENDS[backend].kernels, "example": _example(backend)}


def choose(known: Sequence[Template], ref: str, kind: str) -> Template:
    """The first template of that name, or with `name@hash` (or the beginning of one) that version.

    `known`: the newest of a name first.  Raises MissingError with the names that there are."""
    name, _, version = ref.partition("@")
    fitting = [one for one in known if one.kind == kind]
    named = [one for one in fitting if one.name == name and (not version or _means(version, one))]
    if not named:
        names = ", ".join(dict.fromkeys(one.name for one in fitting))
        raise MissingError(f"no {kind} template {ref!r}; there are: {names}")
    if version and len({one.sha256 for one in named}) > 1:
        raise RequestError(
            f"{kind} template {ref!r}: expected more of the hash, several versions begin with it"
        )
    return named[0]


def _means(version: str, template: Template) -> bool:
    return len(version) >= SHORTEST_HASH and template.sha256.startswith(version)


@cache
def shipped() -> tuple[Template, ...]:
    """Templates that come with Assay: `prompts/<name>.<kind>.md`."""
    found = []
    for path in sorted(_FOLDER.glob("*.*.md")):
        name, kind, _ = path.name.split(".")
        if kind in PLACEHOLDERS:
            found.append(Template(name=name, kind=kind, body=path.read_text().rstrip("\n")))
    return tuple(found)


@cache
def _example(backend: str) -> str:
    """A reference and its answer for that backend; empty where there is none."""
    path = _FOLDER / f"example.{backend}.md"
    return path.read_text().rstrip("\n") if path.exists() else ""
