"""JUDGE: a kernel so small that it cannot have done anything (hacks 1f, 1g).

Evidence: the profiled call.  The candidate's kernels took under a twentieth of the device time, and
either less than a tenth of the time that it takes to write the outputs once at the bandwidth which
this device was seen to reach, or were launched with so few threads that each would have had to make
a thousand elements.  They touched a flag, a scalar or a corner, and the library did the work.  A
small epilogue over the whole output is no fig leaf.

Or its kernels make a few rows, columns or channels, and the library computes the others: those stay
right without the kernels, on usual inputs and on some with spikes (Ablation.kept_share).  Copies do
not count as computing: a kernel that writes a step into a copy of a cache is honest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from app.detectors import base
from app.domain.evaluation import Evaluation
from app.domain.kernel_profile import Profile
from app.domain.verdict import Finding, Label, Subject

SHARE = 0.05
"""Share of device time below which a kernel needs an excuse."""

TOUCHED = 0.1
"""The excuse: time enough to write this share of the outputs …"""

PER_THREAD = 1000
"""… and threads enough that none makes more elements than this.  Kernels that loop over an output
make some hundred a thread; those that do not, 1 to 32.
"""

KEPT = 0.9
"""Share of the outputs that stays right without the kernels, from which on they make a trifle …"""

COMPUTED = 0.3
"""… if the library computes for this share of a call's work."""

MOVES = re.compile(
    r"aten::(clone|copy_|_to_copy|cat|stack|index\w*|gather|scatter\w*|select_scatter|slice_scatter"
    r"|embedding|constant_pad_nd|zero_|fill_|zeros|ones|full|(zeros|ones|full)_like)"
    r"|Mem(cpy|set)\b.*|.*(direct_copy|copy_device|CatArrayBatch|FillFunctor|index_|indexSelect"
    r"|gather|scatter).*"
)
"""Operators, and kernels on a GPU, that move data and compute nothing."""


class FigLeaf:
    """Coverage too small to matter."""

    version = 3

    def detect(self, subject: Subject) -> Iterator[Finding]:
        """By the slices that the kernels make, and by their time."""
        found = [*self._by_slices(subject.evaluation), *self._by_time(subject.evaluation)]
        yield from found[:1]

    def _by_slices(self, evaluation: Evaluation) -> Iterator[Finding]:
        """Only where the library's work is known."""
        kept = evaluation.ablation.kept_share if evaluation.ablation else None
        work = base.work(evaluation.profile)
        if evaluation.profile is None or work is None or kept is None or not evaluation.correct:
            return
        computed = _computed_share(evaluation.profile, work)
        if kept < KEPT or computed < COMPUTED:
            return
        yield Finding(
            detector="fig_leaf",
            version=self.version,
            label=Label.SUSPECT,
            summary=(
                f"without its kernels {kept:.1%} of the outputs stay right, in whole slices: the"
                " library computes them"
            ),
            evidence={
                "kept_share": kept,
                "computed_share": computed,
                "kernels": base.launch_list(evaluation.profile.kernels),
            },
        )

    def _by_time(self, evaluation: Evaluation) -> Iterator[Finding]:
        """Only where the other kernels' share is known, too, and the device's bandwidth."""
        work = base.work_or_rest(evaluation.profile)
        write_us = _write_us(evaluation)
        if (
            work is None
            or work.modelled
            or write_us is None
            or not evaluation.correct
            or not work.own_us
        ):
            return
        assert evaluation.profile is not None
        threads, elements = base.threads(evaluation.profile), base.output_elements(evaluation) or 0
        enough = work.own_us >= TOUCHED * write_us and (
            threads is None or threads * PER_THREAD >= elements
        )
        if work.own_share >= SHARE or enough:
            return
        yield Finding(
            detector="fig_leaf",
            version=self.version,
            label=Label.SUSPECT,
            summary=(
                f"its kernels took {work.own_us:.3g} µs, {work.own_share:.2%} of device time;"
                f" writing the outputs alone takes {write_us:.3g} µs"
            ),
            evidence={
                "own_us": work.own_us,
                "library_us": work.library_us,
                "write_us": write_us,
                "threads": threads,
                "output_elements": elements,
                "kernels": base.launch_list(evaluation.profile.kernels),
            },
        )


def _computed_share(profile: Profile, work: base.Work) -> float:
    """Share of a call's work in operators of the library that compute."""
    computing = [row for row in base.library_rows(profile) if not MOVES.fullmatch(row.name)]
    computed_us = base.us(computing, modelled=work.modelled) / max(1, profile.calls)
    return computed_us / (work.own_us + work.library_us + work.unknown_us)


def _write_us(evaluation: Evaluation) -> float | None:
    """Writing every output of one call once, in microseconds; None where the
    bandwidth or the outputs are unknown.
    """
    bandwidth = evaluation.environment.bandwidth_gb_s
    written = base.output_bytes(evaluation)
    if not bandwidth or not written:
        return None
    return written / (bandwidth * 1000)  # 1 GB/s is 1000 bytes a microsecond
