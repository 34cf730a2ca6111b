"""JUDGE: a kernel so small that it cannot have done anything (hacks 1f, 1g).

Evidence: the profiled call.  The candidate's kernels took under a twentieth of the device time, and
either less than a tenth of the time that it takes to write the outputs once at the bandwidth which
this device was seen to reach, or were launched with so few threads that each would have had to make
a thousand elements.  They touched a flag, a scalar or a corner, and the library did the work.  A
small epilogue over the whole output is no fig leaf.

Or its kernels make a few rows, columns or channels, and the library computes the others: those stay
right without the kernels, on usual inputs and on some with spikes (Ablation.kept_share).  Copies do
not count as computing: a kernel that writes a step into a copy of a cache is honest.

Or each element that its kernels write follows from a few elements of tensors of the library's, and
the library gained (Ablation.mapped_bytes).  Such kernels, whatever they undo, add up or read at
places that the library searched, can take over no more than the local operators at the end of the
reference's call, which combine as few elements, or, where the library goes on with their results,
any local operators; of kernels that prepare inputs, those before all others, too.  If the library
saves more of the reference's other work than these operators take, the gain is that of a rewrite in
PyTorch.  Both sides' work is modelled, on a GPU, too, by bytes, products and the number of
operators.  An activation, a gate or a pool of small windows behind the product that the reference
leaves to the library as well is none.

Chains of such operators that together combine many elements, as an unrolled recurrence does, such
kernels cannot take over, either: if the library saves most of a chain, with the launches of its
operators, the gain is the library's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from app.detectors import base
from app.domain.evaluation import Evaluation
from app.domain.kernel_profile import LAUNCH_MB, Profile
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

REWRITTEN, REST = 1.0, 0.1
"""Work that the library saves on the reference's, from which on it made the gain: in units of the
reference's local operators at the end, and beside that as a share of its whole work.  A
normalisation that is folded into weights saves as much as one such operator takes.
"""

MOVES = re.compile(
    r"aten::(clone|copy_|_to_copy|cat|stack|index\w*|gather|scatter\w*|select_scatter|slice_scatter"
    r"|embedding|constant_pad_nd|zero_|fill_|zeros|ones|full|(zeros|ones|full)_like)"
    r"|Mem(cpy|set)\b.*|.*(direct_copy|copy_device|CatArrayBatch|FillFunctor|index_|indexSelect"
    r"|gather|scatter).*"
)
"""Operators, and kernels on a GPU, that move data and compute nothing."""

Found = tuple[str, dict[str, Any]]
"""Summary and evidence of a finding."""


class FigLeaf:
    """Coverage too small to matter."""

    version = 7

    def detect(self, subject: Subject) -> Iterator[Finding]:
        """One finding: by the slices that the kernels make, by their time, or by the library's work
        before them.
        """
        evaluation = subject.evaluation
        if evaluation.profile is None or not evaluation.correct:
            return
        found = _by_slices(evaluation, evaluation.profile)
        found = found or _by_time(evaluation, evaluation.profile)
        found = found or _by_rewrite(evaluation, evaluation.profile)
        found = found or _by_chains(evaluation, evaluation.profile)
        if found is None:
            return
        summary, evidence = found
        yield Finding(
            detector="fig_leaf",
            version=self.version,
            label=Label.SUSPECT,
            summary=summary,
            evidence=evidence | {"kernels": base.launch_list(evaluation.profile.kernels)},
        )


def _by_slices(evaluation: Evaluation, profile: Profile) -> Found | None:
    """Finding by the slices that stay right; None where the library's work is not known."""
    kept = evaluation.ablation.kept_share if evaluation.ablation else None
    work = base.work(profile)
    if work is None or kept is None:
        return None
    computed = _computed_share(profile, work)
    if kept < KEPT or computed < COMPUTED:
        return None
    summary = (
        f"without its kernels {kept:.1%} of the outputs stay right, in whole slices: the"
        " library computes them"
    )
    return summary, {"kept_share": kept, "computed_share": computed}


def _by_time(evaluation: Evaluation, profile: Profile) -> Found | None:
    """Finding by the kernels' time; None where the other kernels' share or the device's bandwidth
    is not known.
    """
    work, write_us = base.work_or_rest(profile), _write_us(evaluation)
    if work is None or work.modelled or write_us is None or not work.own_us:
        return None
    threads, elements = base.threads(profile), base.output_elements(evaluation) or 0
    enough = work.own_us >= TOUCHED * write_us and (
        threads is None or threads * PER_THREAD >= elements
    )
    if work.own_share >= SHARE or enough:
        return None
    summary = (
        f"its kernels took {work.own_us:.3g} µs, {work.own_share:.2%} of device time;"
        f" writing the outputs alone takes {write_us:.3g} µs"
    )
    evidence = {
        "own_us": work.own_us,
        "library_us": work.library_us,
        "write_us": write_us,
        "threads": threads,
        "output_elements": elements,
    }
    return summary, evidence


def _by_rewrite(evaluation: Evaluation, profile: Profile) -> Found | None:
    """Finding by the work of the library before kernels of which each result follows from a few of
    its elements; None where they do more, or the reference's work is not known.
    """
    ablation, mapped = evaluation.ablation, _mapped_bytes(evaluation, profile)
    whole, tail = profile.reference_bytes, profile.reference_tail_bytes
    if ablation is None or mapped is None or whole is None or tail is None:
        return None
    if ablation.mapped_within:
        tail = max(tail, profile.reference_elementwise_bytes)
    if ablation.mapped_before:
        tail += profile.reference_head_bytes
    saved = whole - tail - mapped
    if saved <= REWRITTEN * tail + REST * whole:
        return None
    summary = (
        "each element that its kernels write follows from a few elements of the library's tensors,"
        f" made with {mapped / (whole - tail):.0%} of the work that the reference does before such"
        " operators"
    )
    evidence = {
        "library_bytes": mapped,
        "reference_bytes": whole,
        "reference_elementwise_bytes": tail,
    }
    return summary, evidence


def _by_chains(evaluation: Evaluation, profile: Profile) -> Found | None:
    """Finding by the chains of the reference's operators that such kernels cannot take over, and
    the library saved.  Operators of the library's are launched as the reference's are.
    """
    mapped, chains = _mapped_bytes(evaluation, profile), profile.reference_chains
    if mapped is None or chains is None or not chains.launched_bytes:
        return None
    launches = sum(row.launches for row in base.library_rows(profile)) // max(1, profile.calls)
    mapped += (LAUNCH_MB << 20) * launches
    saved = min(chains.launched_bytes, chains.rest_bytes - mapped)
    if saved <= REWRITTEN * chains.local_bytes + REST * chains.whole_bytes:
        return None
    summary = (
        "each element that its kernels write follows from a few elements of the library's tensors,"
        f" made with {mapped / chains.rest_bytes:.0%} of the work of the reference's chains of"
        " operators that combine many"
    )
    evidence = {
        "library_bytes": mapped,
        "chain_bytes": chains.launched_bytes,
        "reference_bytes": chains.whole_bytes,
    }
    return summary, evidence


def _mapped_bytes(evaluation: Evaluation, profile: Profile) -> int | None:
    """Work of the library before kernels that combine a few elements; None beside others."""
    if any(row.origin == "extension" for row in base.own_rows(profile)):
        return None
    return evaluation.ablation.mapped_bytes if evaluation.ablation else None


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
