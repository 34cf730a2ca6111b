"""Calls on inputs that a problem's own distribution seldom or never has (workers/variants.py)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from workers.referee import compare
from workers.referee.batches import Batch
from workers.referee.trials import Trials
from workers.variants import CHECKED, TIED, Variant


def usual(batch: Batch) -> list[compare.Usual]:
    """Each output of the first call of a batch that is nothing unusual.  The device must be shared."""
    pairs = zip(batch.baseline, batch.expected, strict=True)
    return [compare.usual(baseline[:1], expected[:1]) for baseline, expected in pairs]


def try_variants(trials: Trials, before: list[compare.Usual]) -> None:
    """A call on each kind of unusual inputs that the reference itself survives; `before`: usual outputs.

    Only what is plainly wrong counts there (compare.Rule.gross).  What becomes of NaN and
    infinity is noted and held against nobody: `max` of Triton ignores a NaN that torch's hands on."""
    for start in range(0, len(CHECKED), trials.slots):
        with trials.lease.shared():
            _try_some(trials, CHECKED[start : start + trials.slots], before)


def unusual(trials: Trials, variant: Variant, usual_batch: Batch) -> Batch | None:
    """Inputs for one call that are not the problem's own; None where the reference does not survive them."""
    batch = trials.draw_unusual((variant,))
    return batch if batch is not None and _survived(trials, batch, usual(usual_batch))[0] else None


def _try_some(trials: Trials, variants: Sequence[Variant], before: list[compare.Usual]) -> None:
    batch = trials.draw_unusual(variants)
    if batch is None:
        return
    ordered = not any(_is_index(leaf) for leaf in batch.baseline)
    survived = _survived(trials, batch, before)
    trials.step_aside()
    fit = [
        slot
        for slot, variant in enumerate(batch.variants)
        if variant == Variant.NONFINITE or (survived[slot] and (ordered or variant not in TIED))
    ]
    if not fit:
        return
    delivery = trials.run_candidate(batch.only(fit), 0, len(fit))
    last = len(fit) - 1
    if delivery.batch.variants[last] != Variant.NONFINITE:
        trials.verify(delivery)
        return
    checks = trials.record.check(delivery.part(last, last + 1), trials.record.rule)
    trials.record.propagates_nonfinite = not any(check.nonfinite_mismatches for check in checks)
    if last:
        trials.verify(delivery.part(0, last))


def _survived(trials: Trials, batch: Batch, before: list[compare.Usual]) -> list[bool]:
    """Whether the reference did, by input set."""
    found: list[bool] = []
    for start in range(0, batch.slots, trials.record.calls_at_once):
        trials.step_aside()
        rows = slice(start, start + trials.record.calls_at_once)
        per_output = [
            compare.survived(baseline[rows], expected[rows], each)
            for baseline, expected, each in zip(batch.baseline, batch.expected, before, strict=True)
        ]
        found += [all(calls) for calls in zip(*per_output, strict=True)]
    return found or [True] * batch.slots


def _is_index(output: torch.Tensor) -> bool:
    return not (output.is_floating_point() or output.is_complex() or output.dtype == torch.bool)
