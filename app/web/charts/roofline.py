"""BROWSE: the geometry of a roofline: how fast the device could move bytes and
compute, and how fast both sides do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from app.domain.evaluation import FLOOR_HEADROOM, Evaluation
from app.domain.roofline import limit_us, peaks_gflop_s
from app.web.charts.axis import ACROSS, BOTTOM, TOP, Tick

HEIGHT = 260
"""Height in pixels."""

DECADES = 2.0
"""Reach of the chart to either side of the problem's intensity, in powers of ten."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One side, or the most that the device allows."""

    side: str
    """`reference`, `candidate` or `limit`."""
    time_us: float
    gb_s: float | None
    """Bytes that must move over the time."""
    gflop_s: float | None
    share: float | None
    """Share of the limit: above 1 where data came from a cache that the measured
    bandwidth is not of.
    """
    x: float
    y: float | None


@dataclass(frozen=True, kw_only=True)
class Ceiling:
    """Peak of arithmetic in one precision, from its knee to the right."""

    label: str
    x: float
    y: float


@dataclass(frozen=True, kw_only=True)
class Roofline:
    """Attained against attainable."""

    points: tuple[Point, ...]
    intensity: float | None
    """FLOP per byte; None where the problem's FLOPs are not known: then there is a
    table and no chart.
    """
    bandwidth_gb_s: float | None
    peaks: str
    """Peaks of arithmetic in words; empty where none are known."""
    roof: tuple[tuple[float, float], ...]
    ceilings: tuple[Ceiling, ...]
    """Peaks that the chart reaches, but the roof's own."""
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]


def roofline(evaluation: Evaluation) -> Roofline | None:
    """The roofline of a timed evaluation; None where it was not timed, or where the bandwidth or
    the bytes to be moved are not known.
    """
    timing, profile = evaluation.timing, evaluation.profile
    if timing is None:
        return None
    bandwidth = evaluation.environment.bandwidth_gb_s
    moved = profile.bytes_moved if profile else None
    if moved is None and bandwidth and timing.floor_us > 0:
        moved = round(timing.floor_us * FLOOR_HEADROOM * bandwidth * 1e3)
    if not moved or not bandwidth:
        return None
    device_class = evaluation.environment.device_class
    flops = (profile.flops if profile else None) or None
    least_us = limit_us(moved, flops, bandwidth, device_class)
    peaks = peaks_gflop_s(device_class)
    intensity = flops / moved if flops else None
    scale = (
        _Scale(intensity, flops, [least_us, timing.reference_us, timing.candidate_us])
        if flops
        else None
    )
    times = (
        ("limit", least_us),
        ("reference", timing.reference_us),
        ("candidate", timing.candidate_us),
    )
    return Roofline(
        points=tuple(
            _point(side, time_us, least_us, moved, flops, scale) for side, time_us in times
        ),
        intensity=intensity,
        bandwidth_gb_s=bandwidth,
        peaks=", ".join(f"{name} {1e-3 * peak:g}" for name, peak in peaks.items()),
        roof=scale.roof(bandwidth, max(peaks.values(), default=math.inf)) if scale else (),
        ceilings=scale.ceilings(bandwidth, peaks) if scale else (),
        x_ticks=scale.x_ticks() if scale else (),
        y_ticks=scale.y_ticks() if scale else (),
    )


def _point(
    side: str, time_us: float, least_us: float, moved: int, flops: int | None, scale: _Scale | None
) -> Point:
    gflop_s = flops / time_us * 1e-3 if flops else None
    return Point(
        side=side,
        time_us=time_us,
        gb_s=moved / time_us * 1e-3,
        gflop_s=gflop_s,
        share=least_us / time_us,
        x=scale.x(scale.intensity) if scale else 0.0,
        y=scale.y(gflop_s) if scale and gflop_s else None,
    )


class _Scale:
    """Both axes are logarithmic: FLOP per byte across, GFLOP/s upwards."""

    def __init__(self, intensity: float | None, flops: int, times_us: list[float]) -> None:
        self.intensity = intensity or 1.0
        rates = [flops / time_us * 1e-3 for time_us in times_us if time_us > 0]
        self.left, self.right = self.intensity / 10**DECADES, self.intensity * 10**DECADES
        self.low, self.high = min(rates) / 4, max(rates) * 6

    def x(self, value: float) -> float:
        share = math.log(value / self.left) / math.log(self.right / self.left)
        return round(min(1.0, max(0.0, share)) * ACROSS, 2)

    def y(self, value: float) -> float:
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return round(HEIGHT - BOTTOM - min(1.0, max(0.0, share)) * (HEIGHT - TOP - BOTTOM), 1)

    def roof(self, bandwidth_gb_s: float, peak_gflop_s: float) -> tuple[tuple[float, float], ...]:
        """The slope of the measured bandwidth, flat from the greatest peak of arithmetic
        on, as far as the chart reaches.
        """
        start = max(self.left, self.low / bandwidth_gb_s)
        end = min(self.right, min(self.high, peak_gflop_s) / bandwidth_gb_s)
        slope = [(self.x(at), self.y(at * bandwidth_gb_s)) for at in (start, end)]
        flat = peak_gflop_s <= self.high and peak_gflop_s / bandwidth_gb_s < self.right
        return (*slope, (self.x(self.right), self.y(peak_gflop_s))) if flat else tuple(slope)

    def ceilings(
        self, bandwidth_gb_s: float, peaks_gflop_s: dict[str, float]
    ) -> tuple[Ceiling, ...]:
        """Peaks below the greatest that the chart reaches."""
        return tuple(
            Ceiling(label=name, x=self.x(peak / bandwidth_gb_s), y=self.y(peak))
            for name, peak in list(peaks_gflop_s.items())[:-1]
            if self.low < peak < self.high and peak / bandwidth_gb_s < self.right
        )

    def x_ticks(self) -> tuple[Tick, ...]:
        return tuple(
            Tick(at=self.x(10.0**e), label=_power(e)) for e in _decades(self.left, self.right)
        )

    def y_ticks(self) -> tuple[Tick, ...]:
        return tuple(
            Tick(at=self.y(10.0**e), label=_power(e)) for e in _decades(self.low, self.high)
        )


def _decades(low: float, high: float) -> range:
    return range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)


_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _power(exponent: int) -> str:
    """One form for every tick: `0.1`, `1`, `10`, `10³`."""
    return (
        f"{10.0**exponent:g}"
        if -1 <= exponent <= 1
        else f"10{str(exponent).translate(_SUPERSCRIPT)}"
    )
