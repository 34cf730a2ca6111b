"""BROWSE: two evaluations side by side: figure by figure, and kernel by kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from app.domain.evaluation import Evaluation
from app.domain.profile import KernelRow, Profile
from app.web import quantities

SAME = 1.005
"""Figures that differ by less than this factor are shown as the same: they look the same, rounded."""

FAR = 1000
"""Factor from which on the factor itself says nothing."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure of both sides."""

    name: str
    before: str
    after: str
    change: str
    """Change in words or as a ratio; empty where there is nothing to compare."""
    tone: str
    """`good`, `bad` or empty; the words say the same."""


@dataclass(frozen=True, kw_only=True)
class KernelChange:
    """One kernel of either profile, per profiled call."""

    name: str
    kind: str
    """`same`, `new` or `gone`."""
    custom: bool
    before_us: float | None
    after_us: float | None
    before_launches: float | None
    after_launches: float | None

    @property
    def ratio(self) -> float | None:
        """Speedup of the kernel; None unless it is on both sides and took time."""
        return self.before_us / self.after_us if self.before_us and self.after_us else None


def figures(before: Evaluation | None, after: Evaluation | None) -> list[Figure]:
    """Every figure that either side has."""
    return [figure for figure in (_figure(name, *FIGURES[name], before, after) for name in FIGURES) if figure]


def kernels(before: Profile | None, after: Profile | None) -> list[KernelChange]:
    """The kernels of both sides, joined by name, longest first."""
    old, new = _per_call(before), _per_call(after)
    joined = [_joined(name, old.get(name), new.get(name)) for name in old.keys() | new.keys()]
    return sorted(joined, key=lambda each: (-max(each.before_us or 0, each.after_us or 0), each.name))


@dataclass(frozen=True, kw_only=True)
class _PerCall:
    us: float
    launches: float
    custom: bool


def _per_call(profile: Profile | None) -> dict[str, _PerCall]:
    """Kernel → per call; rows of one name are added."""
    found: dict[str, list[KernelRow]] = {}
    for row in profile.kernels if profile else ():
        found.setdefault(row.name, []).append(row)
    calls = max(1, profile.calls) if profile else 1
    return {
        name: _PerCall(
            us=sum(row.total_us for row in rows) / calls,
            launches=sum(row.launches for row in rows) / calls,
            custom=any(row.custom for row in rows),
        )
        for name, rows in found.items()
    }


def _joined(name: str, old: _PerCall | None, new: _PerCall | None) -> KernelChange:
    return KernelChange(
        name=name,
        kind="new" if old is None else "gone" if new is None else "same",
        custom=(new or old or _PerCall(us=0, launches=0, custom=False)).custom,
        before_us=old.us if old else None,
        after_us=new.us if new else None,
        before_launches=old.launches if old else None,
        after_launches=new.launches if new else None,
    )


def _worst(evaluation: Evaluation) -> float | None:
    """Largest relative error of any verified output."""
    trials = evaluation.correctness.trials if evaluation.correctness else ()
    return max((out.rel_l2 for trial in trials for out in trial.outputs if out.rel_l2 is not None), default=None)


Read = Callable[[Evaluation], float | None]
Show = Callable[[float | None], str]


def _whole(value: float | None) -> str:
    return quantities.count(None if value is None else round(value))


FIGURES: dict[str, tuple[Read, Show, int]] = {
    "Speedup, measured": (lambda e: e.timing.speedup if e.timing else None, quantities.ratio, 1),
    "Candidate, per call": (lambda e: e.timing.candidate_us if e.timing else None, quantities.duration_us, -1),
    "Reference, per call": (lambda e: e.timing.reference_us if e.timing else None, quantities.duration_us, 0),
    "Coverage by time": (lambda e: e.profile.coverage_time if e.profile else None, quantities.percent, 0),
    "Coverage by launches": (lambda e: e.profile.coverage_count if e.profile else None, quantities.percent, 0),
    "Wrong calls": (lambda e: e.correctness.failed_calls if e.correctness else None, _whole, -1),
    "Largest relative error": (_worst, quantities.scientific, 0),
    "Kernels in the profile": (lambda e: len(e.profile.kernels) if e.profile else None, _whole, 0),
    "Most registers": (
        lambda e: max((k.registers for k in e.compiled_kernels if k.registers is not None), default=None),
        _whole,
        0,
    ),
    "Spilled bytes": (
        lambda e: max((k.spill_bytes for k in e.compiled_kernels if k.spill_bytes is not None), default=None),
        _whole,
        -1,
    ),
}
"""Name → how it is read and shown, and whether more is better (1), worse (-1) or neither (0)."""


def _figure(
    name: str, read: Read, show: Show, better: int, before: Evaluation | None, after: Evaluation | None
) -> Figure | None:
    old, new = (read(side) if side else None for side in (before, after))
    if old is None and new is None:
        return None
    change = _change(old, new, better)
    gain = 0 if old is None or new is None or change == "same" else (new > old) - (new < old)
    return Figure(
        name=name,
        before=show(old),
        after=show(new),
        change=change,
        tone={1: "good", -1: "bad", 0: ""}[gain * better],
    )


def _change(old: float | None, new: float | None, better: int) -> str:
    if old is None or new is None:
        return "now measured" if old is None else "not measured any more"
    if old == new or (min(old, new) > 0 and max(old, new) / min(old, new) < SAME):
        return "same"
    if old <= 0 or new <= 0:
        return "more" if new > old else "fewer"
    factor = max(old / new, new / old)
    words = "better" if (new > old) == (better > 0) else "worse"
    if not better:
        words = "more" if new > old else "less"
    return f"{quantities.ratio(factor) if factor < FAR else 'far'} {words}"
