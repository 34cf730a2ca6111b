"""BROWSE: two evaluations side by side: figure by figure, and kernel by kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from app.domain import speedup_ratio
from app.domain.evaluation import Evaluation
from app.domain.kernel_profile import KernelRow, Profile
from app.domain.speedup_ratio import Comparison, Side
from app.web import formatting

SAME = 1.005
"""Figures that differ by less than this factor are shown as the same: they look the
same, rounded.
"""

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

    @property
    def ratio(self) -> float | None:
        """Time before over time after, without an interval; None unless the kernel
        is on both sides and took time.
        """
        return self.before_us / self.after_us if self.before_us and self.after_us else None


def figures(
    before: Evaluation | None, after: Evaluation | None, comparison: Comparison
) -> list[Figure]:
    """Every figure that either side has.  `comparison` (A: after, B: before) says whether times
    may be called better or worse.
    """
    found = (_figure(name, before, after, comparison) for name in FIGURES)
    return [figure for figure in found if figure]


def side(
    evaluation: Evaluation | None, label: str | None, baseline: str | None, problem: object
) -> Side:
    """An evaluation as `speedup_ratio.compared` takes it; one that is missing was not timed."""
    return Side(
        speed=speedup_ratio.speed(evaluation.timing) if evaluation and evaluation.timing else None,
        label=label,
        problem=problem,
        device_name=evaluation.environment.device_name if evaluation else "",
        baseline=baseline or "",
        protocol=evaluation.protocol if evaluation else "",
    )


def kernels(before: Profile | None, after: Profile | None) -> list[KernelChange]:
    """The kernels of both sides, joined by name, longest first."""
    old, new = _per_call(before), _per_call(after)
    joined = [_joined(name, old.get(name), new.get(name)) for name in old.keys() | new.keys()]
    return sorted(
        joined, key=lambda each: (-max(each.before_us or 0, each.after_us or 0), each.name)
    )


@dataclass(frozen=True, kw_only=True)
class _PerCall:
    us: float
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
            custom=any(row.custom for row in rows),
        )
        for name, rows in found.items()
    }


def _joined(name: str, old: _PerCall | None, new: _PerCall | None) -> KernelChange:
    return KernelChange(
        name=name,
        kind="new" if old is None else "gone" if new is None else "same",
        custom=(new or old or _PerCall(us=0, custom=False)).custom,
        before_us=old.us if old else None,
        after_us=new.us if new else None,
    )


def _worst(evaluation: Evaluation) -> float | None:
    """Largest relative error of any verified output."""
    trials = evaluation.correctness.trials if evaluation.correctness else ()
    return max(
        (out.rel_l2 for trial in trials for out in trial.outputs if out.rel_l2 is not None),
        default=None,
    )


Read = Callable[[Evaluation], float | None]
Show = Callable[[float | None], str]


def _whole(value: float | None) -> str:
    return formatting.count(None if value is None else round(value))


FIGURES: dict[str, tuple[Read, Show, int]] = {
    "Speedup, measured": (lambda e: e.timing.speedup if e.timing else None, formatting.ratio, 1),
    "Device-time speedup, measured": (
        lambda e: e.timing.device.speedup if e.timing and e.timing.device else None,
        formatting.ratio,
        0,
    ),
    "Candidate, per call": (
        lambda e: e.timing.candidate_us if e.timing else None,
        formatting.duration_us,
        -1,
    ),
    "Reference, per call": (
        lambda e: e.timing.reference_us if e.timing else None,
        formatting.duration_us,
        0,
    ),
    "Coverage by time": (
        lambda e: e.profile.coverage_time if e.profile else None,
        formatting.percent,
        0,
    ),
    "Coverage by launches": (
        lambda e: e.profile.coverage_count if e.profile else None,
        formatting.percent,
        0,
    ),
    "Wrong calls": (lambda e: e.correctness.failed_calls if e.correctness else None, _whole, -1),
    "Largest relative error": (_worst, formatting.scientific, 0),
    "Kernels in the profile": (lambda e: len(e.profile.kernels) if e.profile else None, _whole, 0),
    "Most registers": (
        lambda e: max(
            (k.registers for k in e.compiled_kernels if k.registers is not None), default=None
        ),
        _whole,
        0,
    ),
    "Spilled bytes": (
        lambda e: max(
            (k.spill_bytes for k in e.compiled_kernels if k.spill_bytes is not None), default=None
        ),
        _whole,
        -1,
    ),
}
"""Name → how it is read and shown, and whether more is better (1), worse (-1) or neither (0)."""


TIMED = frozenset({"Speedup, measured", "Candidate, per call"})
"""Figures with measurement noise: the intervals of both speedups decide whether a change is one."""


def _figure(
    name: str, before: Evaluation | None, after: Evaluation | None, comparison: Comparison
) -> Figure | None:
    read, show, better = FIGURES[name]
    old, new = (read(side) if side else None for side in (before, after))
    if old is None and new is None:
        return None
    change = _change(old, new)
    gain = 0
    if old is not None and new is not None and change != "same":
        gain = comparison.gain if name in TIMED else better * ((new > old) - (new < old))
        if name in TIMED and gain == 0:
            change += (
                ", no difference within the intervals" if comparison.ratio else ", not comparable"
            )
    word = {1: ", better", -1: ", worse", 0: ""}[gain]
    return Figure(
        name=name,
        before=show(old),
        after=show(new),
        change=change + word,
        tone={1: "good", -1: "bad", 0: ""}[gain],
    )


def _change(old: float | None, new: float | None) -> str:
    """Direction and size of a change, without a judgement."""
    if old is None or new is None:
        return "now measured" if old is None else "not measured"
    if old == new or (min(old, new) > 0 and max(old, new) / min(old, new) < SAME):
        return "same"
    words = "more" if new > old else "less"
    if old <= 0 or new <= 0:
        return words
    factor = max(old / new, new / old)
    return f"{formatting.ratio(factor) if factor < FAR else 'far'} {words}"
