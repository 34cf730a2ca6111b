"""BROWSE: plots of runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from app.domain.metrics import Share
from app.store.browse import runs
from app.web import formatting, run_metrics
from app.web.charts import line_plot
from app.web.charts.line_plot import Series


def turn_plot(figures: run_metrics.Figures) -> line_plot.LinePlot | None:
    """Best so far and single turns, by turn."""
    best, single = figures.best_by_turn, figures.at_turn
    series = [
        _curve("faster than 1×, best so far", [(turn, fast) for turn, _, fast in best]),
        _curve("faster than 1×, that turn", [(turn, fast) for turn, _, fast in single]),
        _curve("correct, best so far", [(turn, correct) for turn, correct, _ in best]),
        _curve("correct, that turn", [(turn, correct) for turn, correct, _ in single]),
    ]
    return line_plot.lines(
        series, x_label="turn", y_label="share", y_text=formatting.percent, y_range=(0.0, 1.0)
    )


def sampling_plot(figures: run_metrics.Figures) -> line_plot.LinePlot | None:
    """pass@k and fast_p@k by the number of samples; None for one sample a problem,
    which the table of fast_p has.
    """
    if len(figures.pass_at) < 2:
        return None
    series = [
        Series(
            name="pass@k", points=[(float(k), correct.value) for k, correct, _ in figures.pass_at]
        ),
        Series(
            name="faster than 1×, at k",
            points=[(float(k), fast.value) for k, _, fast in figures.pass_at],
        ),
    ]
    return line_plot.lines(
        series,
        x_label="k trajectories",
        y_label="share",
        y_text=formatting.percent,
        y_range=(0.0, 1.0),
        log_x=True,
    )


def best_of_plot(figures: run_metrics.Figures) -> line_plot.LinePlot | None:
    """Best of k samples by k."""
    points = [(float(number), best.value) for number, best in figures.best_at]
    return line_plot.on_both_scales(
        [Series(name="expected best speedup", points=points)],
        "y",
        x_label="n trajectories",
        y_label="speedup",
        y_text=formatting.ratio,
        log_x=True,
    )


def _curve(name: str, points: list[tuple[int, Share]]) -> Series:
    bands = [share.interval() for _, share in points]
    return Series(
        name=name,
        points=[(float(turn), share.value) for turn, share in points],
        band=[None if band is None else (band.low, band.high) for band in bands],
    )


def overlay(
    chosen: list[runs.RunRow], figures: list[run_metrics.Figures], name: str
) -> line_plot.LinePlot | None:
    """One figure of several runs by turn, one line each."""
    series = [
        _curve(run.name, [(turn, fast) for turn, _, fast in getattr(each, name)])
        for run, each in zip(chosen, figures, strict=True)
    ]
    return line_plot.lines(
        series, x_label="turn", y_label="share", y_text=formatting.percent, y_range=(0.0, 1.0)
    )


def ecdf_plot(named: Mapping[str, run_metrics.Figures]) -> line_plot.LinePlot | None:
    """Share of problems by speedup, one step line a run."""
    series = [Series(name=name, points=each.ecdf) for name, each in named.items()]
    return line_plot.on_both_scales(
        series,
        "x",
        x_label="credited speedup over eager",
        y_label="share at most that fast",
        x_text=formatting.ratio,  # values are above 0 and finite
        y_text=formatting.percent,
        y_range=(0.0, 1.0),
        log_x=True,
        marks=False,
        holds=True,
    )


def trend_plot(trend: list[runs.RunRow]) -> line_plot.LinePlot | None:
    """Figures of runs over training steps; None for fewer than two."""
    if len(trend) < 2:
        return None
    kinds: tuple[tuple[str, Callable[[runs.Counts], tuple[int, int]]], ...] = (
        ("correct", lambda counts: (counts.correct, counts.attempts)),
        ("faster than 1×", lambda counts: (counts.faster_than_1, counts.attempts)),
        ("hacks", lambda counts: (counts.hacks, counts.attempts)),
    )
    series = [
        Series(
            name=name,
            points=[
                (float(row.step or 0), above / below if below else None)
                for row in trend
                for above, below in [share(row.counts)]
            ],
        )
        for name, share in kinds
    ]
    return line_plot.lines(
        series,
        x_label="training step",
        y_label="share",
        y_text=formatting.percent,
        y_range=(0.0, 1.0),
    )


def speed_plot(trend: list[runs.RunRow]) -> line_plot.LinePlot | None:
    """Geometric-mean speedups of runs over training steps; None for fewer than two."""
    if len(trend) < 2:
        return None
    points = [(float(row.step or 0), row.geometric_mean) for row in trend]
    return line_plot.on_both_scales(
        [Series(name="geometric-mean speedup", points=points)],
        "y",
        x_label="training step",
        y_label="speedup",
        y_text=formatting.ratio,
    )
