"""BROWSE: the verified calls: a grid of variants and seeds, and a table with a line
per call and output.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.domain.output_checks import Correctness, OutputCheck, Trial
from app.web import formatting

VARIANTS = {
    "own": "the problem's own inputs",
    "scaled": "the same, scaled up or down",
    "heavy_tailed": "a few values far out",
    "sign_mixed": "both signs",
    "sparse": "mostly zeros",
    "constant_rows": "some rows constant",
    "nonfinite": "with NaN and infinities",
    "edges": "small but at the ends",
    "mild": "the same, doubled or halved",
    "resampled": "some rows twice, others never",
    "redrawn": "integers drawn anew that never vary",
    "reaching": "values beyond limits in the reference's code",
    "signed": "both signs, where the reference treats them differently",
    "named": "values that the reference compares with",
    "unsorted": "in another order, where the reference sorts",
    "held": "rows alike, where the reference iterates",
    "diagonal": "nearly diagonal matrices, where the reference iterates",
    "stretched": "beyond their range, where the reference iterates or is a function of elements",
    "aligned": "rows in the order of weights, where the reference chooses or has limits",
    "lasting": "near one, where the reference iterates",
    "telling": "slow to converge, where the reference iterates",
    "shrunk": "much smaller, unless between -1 and 1",
    "balanced": "both signs, where the reference multiplies matrices of one sign",
    "emptied": "some rows of zeros, where the reference divides",
    "loosened": "not quite normed or symmetric, where the reference makes them so",
}
"""Changes made to the inputs of a call, in words."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One call in the grid."""

    trial: Trial
    share: float | None
    """Its largest error as a share of that error's limit; None where nothing was
    finite or compared.
    """
    title: str


@dataclass(frozen=True, kw_only=True)
class GridRow:
    """The calls of one variant of the inputs, each with a seed of its own."""

    variant: str
    meaning: str
    cells: tuple[Cell, ...]
    wrong: int
    worst: float | None
    """Largest share of a limit."""


@dataclass(frozen=True, kw_only=True)
class CheckLine:
    """One output of one call; a call without outputs has one line."""

    trial: Trial
    output: OutputCheck | None
    ok: bool
    span: int
    """Lines of this call on its first one, else 0."""
    notes: tuple[str, ...]
    """Notable facts, in words."""


def grid(correctness: Correctness) -> list[GridRow]:
    """The stored calls by variant, the problem's own inputs first."""
    names = sorted(
        {trial.variant for trial in correctness.trials}, key=lambda name: (name != "own", name)
    )
    return [
        _grid_row(name, [trial for trial in correctness.trials if trial.variant == name])
        for name in names
    ]


def _grid_row(variant: str, trials: list[Trial]) -> GridRow:
    cells = tuple(_cell(trial) for trial in trials)
    return GridRow(
        variant=variant,
        meaning=VARIANTS.get(variant, "inputs of another kind"),
        cells=cells,
        wrong=sum(not cell.trial.ok for cell in cells),
        worst=max((cell.share for cell in cells if cell.share is not None), default=None),
    )


def _cell(trial: Trial) -> Cell:
    shares = [share for output in trial.outputs for share in _shares(output)]
    worst = max(shares, default=None)
    reach = (
        "nothing finite was compared"
        if worst is None
        else f"{formatting.percent(worst)} of the limit"
    )
    if any(output.beyond is not None for output in trial.outputs):
        reach = "by the tolerance asked for"
    notes = [note for output in trial.outputs for note in _notes(output, trial)]
    where = f"case {trial.case}, " if trial.case else ""
    return Cell(
        trial=trial,
        share=worst,
        title="; ".join(
            [
                (
                    f"{where}call {trial.call}, seed {trial.seed}: {'ok' if trial.ok else 'wrong'},"
                    f" {reach}"
                ),
                *notes,
            ]
        ),
    )


def _shares(output: OutputCheck) -> list[float]:
    """Shares of Assay's limits, where those decided."""
    if output.beyond is not None:
        return []
    errors = ((output.rel_l2, output.rel_l2_limit), (output.max_norm, output.max_norm_limit))
    return [error / limit for error, limit in errors if error is not None and limit > 0]


def lines(correctness: Correctness) -> list[CheckLine]:
    """Every line, in the order of calls and outputs."""
    return [line for trial in correctness.trials for line in _lines(trial)]


WORST = 8
"""Wrong outputs with their worst element in the short table."""


def worst(correctness: Correctness) -> list[CheckLine]:
    """The first wrong outputs with a known worst element."""
    located = [
        line
        for line in lines(correctness)
        if line.output is not None and line.output.worst is not None
    ]
    return located[:WORST]


def _lines(trial: Trial) -> list[CheckLine]:
    changed = ", ".join(map(str, trial.inputs_changed))
    of_call = (f"inputs changed: {changed}",) if changed else ()
    if not trial.outputs:
        return [CheckLine(trial=trial, output=None, ok=trial.ok, span=1, notes=of_call)]
    return [
        CheckLine(
            trial=trial,
            output=output,
            ok=output.ok,
            span=0 if position else len(trial.outputs),
            notes=(*_notes(output, trial), *(() if position else of_call)),
        )
        for position, output in enumerate(trial.outputs)
    ]


def _notes(output: OutputCheck, trial: Trial) -> list[str]:
    notes = []
    if output.stale_call is not None:
        notes.append(f"the answer of call {output.stale_call}")
    if output.unwritten:
        notes.append(f"{formatting.count(output.unwritten)} elements never written")
    if output.beyond:
        notes.append(f"{formatting.count(output.beyond)} elements beyond the tolerance")
    if output.nonfinite_mismatches:
        notes.append(
            f"{formatting.count(output.nonfinite_mismatches)} elements finite on one side only"
        )
    if output.index in trial.late_writes:
        notes.append("written after it was done")
    return notes
