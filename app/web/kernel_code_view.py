"""BROWSE: code that a compiler made of a kernel, line by line with the line of the
source that it comes from.

The text is testimony of a confined process: unparsable text is shown without lines of the source.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from werkzeug.exceptions import NotFound

from app.domain.evidence import KernelCode
from app.web import request_context, safe_text

FORMS = {"ttir": "Triton IR", "ttgir": "Triton GPU IR", "ptx": "PTX"}
"""Form → name; a form without one is shown by its own."""
LINES = 4_000
"""Lines of a kernel's code that a page shows; the download has all."""
SOURCE = "candidate.py"
"""File name under which a candidate's source is compiled."""
DEPTH = 8
"""Locations inside each other that are followed."""

_DEFINED = re.compile(r"^(#loc\d*) = loc\((.*)\)\s*$")
_USED = re.compile(r"loc\((#loc\d*)\)\s*$")
_PLACE = re.compile(r'^"([^"]*)":(\d+):\d+')
_REFERENCE = re.compile(r"#loc\d*")
_PTX_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"(?:\s+"([^"]*)")?')
_PTX_LINE = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s")


@dataclass(frozen=True, kw_only=True)
class CodeLine:
    """One line of compiled code."""

    text: str
    source: int | None
    """Line of the candidate's source that it comes from, from 1."""


@dataclass(frozen=True, kw_only=True)
class KernelCodeView:
    """One form of one kernel, and the names of all."""

    kernels: tuple[str, ...]
    kernel: int
    forms: tuple[str, ...]
    """Forms of the kernel that are stored."""
    form: str
    lines: tuple[CodeLine, ...]
    hidden_lines: int
    text: str


def view(codes: Sequence[KernelCode]) -> KernelCodeView | None:
    """The kernel (by its place) and form that the request names, else the first kernel's last form;
    None without codes. NotFound for one that there is not.
    """
    groups = _grouped(codes)
    if not groups:
        return None
    asked = request_context.number_argument("kernel") or 0
    if asked >= len(groups):
        raise NotFound(f"There is no kernel {asked}: {len(groups)} are stored.")
    forms = groups[asked][1]
    form = request_context.argument("form") or list(forms)[-1]
    if form not in forms:
        raise NotFound(f"There is no {form} of this kernel: {', '.join(forms)} are stored.")
    lines = parsed(forms[form], form)
    return KernelCodeView(
        kernels=tuple(name for name, _ in groups),
        kernel=asked,
        forms=tuple(forms),
        form=form,
        lines=tuple(lines[:LINES]),
        hidden_lines=max(0, len(lines) - LINES),
        text=forms[form],
    )


def parsed(text: str, form: str) -> list[CodeLine]:
    """Lines of the text with their places in the source."""
    shown = safe_text.visible(text).splitlines()
    places = _of_ptx(shown) if form == "ptx" else _of_mlir(shown)
    return [CodeLine(text=line, source=place) for line, place in zip(shown, places, strict=True)]


def _grouped(codes: Sequence[KernelCode]) -> list[tuple[str, dict[str, str]]]:
    """Kernel and its forms; a kernel that was compiled in several ways is several."""
    groups: list[tuple[str, dict[str, str]]] = []
    for code in codes:
        if not groups or groups[-1][0] != code.kernel or code.form in groups[-1][1]:
            groups.append((code.kernel, {}))
        groups[-1][1][code.form] = code.text
    return groups


def _of_ptx(lines: Sequence[str]) -> list[int | None]:
    """A `.loc` directive holds for the instructions after it."""
    files: set[str] = set()
    for line in lines:
        if found := _PTX_FILE.match(line):
            number, *parts = found.groups("")
            files |= {number} if "/".join(parts).rstrip("/").endswith(SOURCE) else set()
    places: list[int | None] = []
    current: int | None = None
    for line in lines:
        if found := _PTX_LINE.match(line):
            current = int(found[2]) if found[1] in files else None
        places.append(current if line.strip().endswith(";") else None)
    return places


def _of_mlir(lines: Sequence[str]) -> list[int | None]:
    """An operation ends with a reference to a location that is defined elsewhere."""
    defined = {found[1]: found[2] for line in lines if (found := _DEFINED.match(line))}

    @cache  # a location that names itself many times would be followed exponentially often
    def place(name: str, depth: int = 0) -> int | None:
        body = defined.get(name, "")
        if found := _PLACE.match(body):
            return int(found[2]) if found[1].endswith(SOURCE) else None
        inner = _REFERENCE.findall(body) if depth < DEPTH else []
        return next((at for name in inner if (at := place(name, depth + 1)) is not None), None)

    used = [None if _DEFINED.match(line) else _USED.search(line) for line in lines]
    return [place(found[1]) if found else None for found in used]
