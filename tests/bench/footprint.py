"""Footprint of processes, and whether it stays flat: memory, descriptors, number of processes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SETTLED = 0.4
"""Share of the samples after which a footprint has to be flat: before it, caches
fill and pools open.
"""
LEAST_SAMPLES = 6
"""Samples from which on the first settled ones and the last ones are others."""


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """Growth of one figure, from the first settled sample to the last, that counts as flat."""

    share: float = 0.0
    least: float = 0.0
    """In the figure's own unit."""


def resident_bytes(pids: Iterable[int]) -> int:
    """Memory of the processes together that belongs to no file, shared pages counted in parts.

    Pages of libraries are left out: how many of them count depends on which other
    processes of the machine run.
    """
    total = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        own = ("Pss_Anon:", "Pss_Shmem:")
        total += sum(int(line.split()[1]) << 10 for line in lines if line.startswith(own))
    return total


def descriptors(pids: Iterable[int]) -> int:
    """Open files of the processes together."""
    total = 0
    for pid in pids:
        try:
            total += len(list(Path(f"/proc/{pid}/fd").iterdir()))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return total


def grown(
    samples: Sequence[Mapping[str, float]], allowances: Mapping[str, Allowance]
) -> dict[str, str]:
    """Figures that are not flat, each with its values at the first settled sample and at the end.

    Each end is the median of three neighbouring samples, because a sample may meet a
    process that is being taken apart.  Raises ValueError for fewer than LEAST_SAMPLES.
    """
    if len(samples) < LEAST_SAMPLES:
        raise ValueError(f"expected at least {LEAST_SAMPLES} samples, got {len(samples)}")
    found = {}
    start = int(len(samples) * SETTLED)
    for name, allowance in allowances.items():
        values = [float(sample[name]) for sample in samples]
        first, last = sorted(values[start : start + 3])[1], sorted(values[-3:])[1]
        if last - first > max(allowance.least, allowance.share * first):
            found[name] = f"{first:,.0f} → {last:,.0f}"
    return found


def report(
    samples: Sequence[Mapping[str, float]], allowances: Mapping[str, Allowance]
) -> dict[str, Any]:
    """Figures that are not flat, the first settled and the last sample, and the machine's load."""
    return {
        "grown": grown(samples, allowances),
        "first": samples[int(len(samples) * SETTLED)],
        "last": samples[-1],
        "load": os.getloadavg()[0],
        "cpus": os.cpu_count(),
    }
