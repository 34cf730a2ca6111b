"""Failures of a candidate's own kernels that its source caught: a CUDA extension that was not
built, a launch that raised.

Many published candidates answer by the library after such a failure, silently.  The failures are
testimony: they explain a finding to people and models, and no rule depends on them.
"""

from __future__ import annotations

from workers.shims import call_errors

MOST = 4
"""Failures that are kept, each of another kernel or extension: a launch that fails in every call
costs nothing from its second failure on.
"""


class CaughtFailures:
    """The first failure of each kernel and extension, as one line of text."""

    def __init__(self) -> None:
        """No failure yet."""
        self._lines: dict[str, str] = {}

    def note(self, name: str, error: BaseException) -> None:
        """Note that the kernel or extension of that name failed."""
        if name not in self._lines and len(self._lines) < MOST:
            reason, _, _ = call_errors.explain(error).partition("\n")
            self._lines[name] = f"{name}: {reason}"

    def text(self) -> str:
        """The lines, in the order of the failures."""
        return "\n".join(self._lines.values())
