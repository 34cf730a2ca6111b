"""A problem: a PyTorch reference with its source set and level."""

from __future__ import annotations

import re
from dataclasses import dataclass

from app.domain import ids

ADHOC = "adhoc"
"""Source set of a problem that came with a request and has no name of its own."""

CASES_WORKFLOW = "kernel_simple"
"""Workflow of problems that give cases and no model; KernelGYM's name."""
CASES_FUNCTION = b"get_cases"
"""Name in the source of such a problem."""
_USUAL = "Model"
"""Entry point where a request names none."""
_CASES = re.compile(rb"^(?:def get_cases\b|get_cases\s*=)", re.MULTILINE)
_DEFINES = r"^(?:class {name}\b|{name}\s*=)"


def is_by_cases(reference: bytes, entry_point: str = _USUAL) -> bool:
    """True if a source gives cases and no model, so that only CASES_WORKFLOW can evaluate it."""
    if CASES_FUNCTION not in reference or not _CASES.search(
        reference
    ):  # nearly always, and in no time
        return False
    model = re.compile(_DEFINES.format(name=re.escape(entry_point)).encode(), re.MULTILINE)
    return not model.search(reference)


def adhoc_name(reference: bytes, entry_point: str = _USUAL) -> str:
    """A name made of the content: the beginning of the reference's hash, and the entry
    point where it is not `Model`.

    The same reference with another entry point is another problem (other outputs are
    expected), so its name differs.
    """
    beginning = ids.sha256(reference)[:12]
    return beginning if entry_point == _USUAL else f"{beginning}.{entry_point}"


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A reference in KernelBench form: a module defining `Model`, `get_inputs` and
    `get_init_inputs`; or, for the workflow `kernel_simple`, a module defining `get_cases`.
    """

    name: str
    """Unique within its source set together with the reference's hash and the entry point."""
    reference: bytes
    """Python source."""
    source_set: str = ADHOC
    """Origin: `samples`, `kernelbench`, `adhoc` …"""
    level: int | None = None
    """The source set's own level of difficulty."""
    entry_point: str = _USUAL
    """Name of the reference class; a candidate defines this name followed by `New`."""

    @property
    def reference_sha256(self) -> str:
        """Hash of the reference source."""
        return ids.sha256(self.reference)

    @property
    def is_by_cases(self) -> bool:
        """True if it gives cases and no model."""
        return is_by_cases(self.reference, self.entry_point)
