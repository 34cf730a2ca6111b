"""A problem: a PyTorch reference with its source set and level."""

from __future__ import annotations

from dataclasses import dataclass

from app.domain import ids


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A reference in KernelBench form: a module defining `Model`, `get_inputs` and `get_init_inputs`; or, for the
    workflow `kernel_simple`, a module defining `get_cases`."""

    name: str
    """Unique within its source set together with the reference's hash."""
    reference: bytes
    """Python source."""
    source_set: str = "adhoc"
    """Where it comes from: `samples`, `kernelbench`, `adhoc` …"""
    level: int | None = None
    """The source set's own level of difficulty."""
    entry_point: str = "Model"
    """Name of the reference class; a candidate defines this name followed by `New`."""

    @property
    def reference_sha256(self) -> str:
        """Hash of the reference source."""
        return ids.sha256(self.reference)
