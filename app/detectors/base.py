"""Interface of detectors, and queries of a profile that several of them share."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Protocol

from app.domain.backend import OWN_ORIGINS
from app.domain.evaluation import Block, Evaluation
from app.domain.kernel_profile import KernelRow, Profile
from app.domain.verdict import Finding, Subject

LIBRARY = frozenset({"torch", "inductor"})
"""Origins of kernels that the candidate did not bring: ATen and the libraries under
it, and torch.compile.
"""

LISTED = 20
"""Kernels that a finding lists: those that took longest."""


class Detector(Protocol):
    """Looks at stored evidence; runs nothing."""

    version: int
    """Raised with every change of its findings."""

    def detect(self, subject: Subject) -> Iterable[Finding]:
        """Findings, each in this detector's name and version, with the numbers that
        a person can check.

        The label is a proposal: the finding's weight unless the policy sets another.
        """
        ...


def per_call_us(blocks: Iterable[Block], side: str, handover_us: float) -> list[float]:
    """Microseconds per call, block by block, of the blocks of one side that count."""
    return [
        (block.wall_us - handover_us) / block.calls
        for block in blocks
        if block.side == side and block.calls
    ]


MODELLED_BYTES_PER_US = 3.3e6
"""Memory bandwidth of an H100, by which modelled work becomes time."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """Device time of one profiled call, by origin of its kernels; on the CPU device
    modelled work, as a GPU's time.
    """

    own_us: float
    """In kernels that the candidate brought."""
    library_us: float
    unknown_us: float = 0.0
    """In kernels of unknown origin, which are not known to be the candidate's."""
    modelled: bool = False
    """True if the value was modelled, not measured (KernelRow.work_bytes)."""

    @property
    def own_share(self) -> float:
        """0 to 1."""
        return self.own_us / (self.own_us + self.library_us + self.unknown_us)

    @property
    def library_share(self) -> float:
        """0 to 1."""
        return self.library_us / (self.own_us + self.library_us + self.unknown_us)


def work(profile: Profile | None) -> Work | None:
    """Device time by origin, or None where no kernel but the candidate's own was recorded."""
    if profile is None:
        return None
    modelled = any(row.work_bytes for row in profile.kernels)
    own, library = (
        us(own_rows(profile), modelled=modelled),
        us(library_rows(profile), modelled=modelled),
    )
    unknown = us(
        [row for row in profile.kernels if not row.custom and row.origin == "unknown"],
        modelled=modelled,
    )
    calls = max(1, profile.calls)
    if library + unknown <= 0:
        return None
    return Work(
        own_us=own / calls,
        library_us=library / calls,
        unknown_us=unknown / calls,
        modelled=modelled,
    )


def us(rows: Iterable[KernelRow], *, modelled: bool) -> float:
    """Device time of some rows over all profiled calls, or their modelled work as a GPU's time."""
    return sum(
        (row.work_bytes or 0) / MODELLED_BYTES_PER_US if modelled else row.total_us for row in rows
    )


def work_or_rest(profile: Profile | None) -> Work | None:
    """Device time by origin; where no kernel but the candidate's own was recorded, the library's
    is the rest of the call's time.
    """
    return work(profile) or _rest(profile)


def _rest(profile: Profile | None) -> Work | None:
    """Work where only its own kernels were recorded: the library's is the rest of the profiled
    call's time on the device, in which kernels follow each other without waiting for the host.
    None on the CPU device, where launches have no size.
    """
    if profile is None or not profile.device_us or threads(profile) is None:
        return None
    own_us = sum(row.total_us for row in own_rows(profile)) / max(1, profile.calls)
    return Work(own_us=own_us, library_us=max(0.0, profile.device_us - own_us)) if own_us else None


def threads(profile: Profile) -> int | None:
    """Threads of all launches of its own kernels; None where a launch's size is not known."""
    total = 0
    for row in own_rows(profile):
        if row.grid is None or row.block is None:
            return None
        total += row.launches * prod(row.grid) * prod(row.block)
    return total // max(1, profile.calls)


def launch_list(rows: Iterable[KernelRow]) -> list[dict[str, object]]:
    """The kernels as evidence, longest first, capped."""
    longest = sorted(rows, key=lambda row: row.total_us, reverse=True)[:LISTED]
    return [
        {"name": row.name, "origin": row.origin, "launches": row.launches, "total_us": row.total_us}
        for row in longest
    ]


def own_rows(profile: Profile | None) -> list[KernelRow]:
    """Kernels that the candidate brought."""
    rows = profile.kernels if profile else ()
    return [row for row in rows if row.custom or row.origin in OWN_ORIGINS]


def library_rows(profile: Profile | None) -> list[KernelRow]:
    """Kernels that it did not bring; those of unknown origin are neither."""
    return (
        [row for row in profile.kernels if not row.custom and row.origin in LIBRARY]
        if profile
        else []
    )


def output_bytes(evaluation: Evaluation) -> int:
    """Bytes of all outputs of one call; 0 where no call was verified."""
    trials = evaluation.correctness.trials if evaluation.correctness else ()
    return (
        sum(prod(check.shape) * _width(check.dtype) for check in trials[0].outputs) if trials else 0
    )


def _width(dtype: str) -> int:
    """Bytes of an element, by the number in its type's name: `bfloat16`,
    `float8_e4m3fn`, `bool`.
    """
    bits = re.search(r"\d+", dtype)
    return max(1, int(bits[0]) // 8) if bits else 1


def output_elements(evaluation: Evaluation) -> int | None:
    """Elements of all outputs of one call; None where no call was verified."""
    trials = evaluation.correctness.trials if evaluation.correctness else ()
    return sum(prod(check.shape) for check in trials[0].outputs) if trials else None
