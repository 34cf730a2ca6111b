"""Rejection and advantages of a batch in the order in which Dr. Kernel's trainer applies them.

    1  void turns and turns of failed trajectories: reward 0, outside every group
    2  prompts with uniform last rewards, or with too few trajectories: left out whole
    3  MRS, then veto, on the turns that are left
    4  PRS, on the turns that are left
    5  advantages: rows rejected by 3 and 4 stay in the baseline, unless
       `rejected_in_baseline` is False

Missing rewards leave before step 1.  Source: `fit` in drkernel/kernel/kernel_trainer.py of
KernelGYM@3a84417, which removes turns without response tokens after the advantages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from app.domain.credit.methods import MethodOptions, advantages
from app.domain.credit.rejection import (
    LEAST_STD,
    Mismatch,
    Profiling,
    drawn_out,
    mismatched,
    uniform_groups,
    vetoed,
    void,
)
from app.domain.credit.turns import Credit, Dropped, Turn, by_trajectory


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A method with its filters.  Defaults: Dr. Kernel without MRS and PRS, which
    need recorded ratios and profiles.
    """

    method: str = "trloo"
    options: MethodOptions = field(default_factory=MethodOptions)
    void_turns: bool = True
    """True masks void turns."""
    least_std: float | None = LEAST_STD
    """None: uniform groups stay."""
    least_group: int = 1
    """Trajectories that a prompt needs; KernelGYM: n // 2 + 1 of n rollouts."""
    mismatch: Mismatch | None = None
    profiling: Profiling | None = None
    rejected_in_baseline: bool = True
    """True counts turns rejected by MRS, veto and PRS in their group's baseline, as in KernelGYM.
    The paper does not say; verl issues 6375 and 6452 discuss it.
    """


def assign(turns: Sequence[Turn], recipe: Recipe | None = None) -> list[Credit]:
    """Credit of every turn, in the order of `turns`.  Raises CreditError
    (app.domain.credit.methods, rejection).
    """
    recipe = recipe or Recipe()
    dropped = _before_groups(turns, recipe)
    used = {
        turn: replace(turn, trainable=turn.trainable and dropped.get(turn) is not Dropped.VOID)
        for turn in turns
    }
    dropped |= _left_out(used, dropped, recipe)
    rejected = _rejected(used, dropped, recipe)
    outside = set() if recipe.rejected_in_baseline else {used[turn] for turn in rejected}
    members = [turn for turn in turns if dropped.get(turn) not in {Dropped.UNIFORM, Dropped.SMALL}]
    results = advantages(
        [used[turn] for turn in members], recipe.method, recipe.options, outside=outside
    )
    found = {
        turn: replace(credit, turn=turn) for turn, credit in zip(members, results, strict=True)
    }
    return [_final(turn, found.get(turn), (dropped | rejected).get(turn)) for turn in turns]


def _before_groups(turns: Sequence[Turn], recipe: Recipe) -> dict[Turn, Dropped]:
    found: dict[Turn, Dropped] = {}
    for members in by_trajectory(turns).values():
        for turn, is_void in zip(members, void([turn.reward for turn in members]), strict=True):
            if not turn.trainable:
                found[turn] = Dropped.MASKED
            elif turn.reward is None:
                found[turn] = Dropped.MISSING
            elif is_void and recipe.void_turns:
                found[turn] = Dropped.VOID
    return found


def _left_out(
    used: Mapping[Turn, Turn], dropped: Mapping[Turn, Dropped], recipe: Recipe
) -> dict[Turn, Dropped]:
    """Turns of prompts that are left out whole."""
    names: dict[object, set[object]] = {}
    for turn in used:
        if dropped.get(turn) is not Dropped.MISSING:
            names.setdefault(turn.group, set()).add(turn.trajectory)
    small = {group for group, members in names.items() if len(members) < recipe.least_group}
    uniform = set() if recipe.least_std is None else uniform_groups(used.values(), recipe.least_std)
    found: dict[Turn, Dropped] = {}
    for turn in used:
        if turn.group in uniform:
            found[turn] = Dropped.UNIFORM
        elif turn.group in small:
            found[turn] = Dropped.SMALL
    return found


def _rejected(
    used: Mapping[Turn, Turn], dropped: Mapping[Turn, Dropped], recipe: Recipe
) -> dict[Turn, Dropped]:
    """Turns that MRS, the veto or PRS leaves out of the loss."""
    found: dict[Turn, Dropped] = {}
    originals = [turn for turn in used if turn not in dropped]
    for members in by_trajectory(originals).values():
        if recipe.mismatch is not None:
            for turn, rejected in zip(members, mismatched(members, recipe.mismatch), strict=True):
                if rejected:
                    found[turn] = Dropped.MISMATCH
                elif vetoed(turn, recipe.mismatch):
                    found[turn] = Dropped.VETO
        if recipe.profiling is not None:
            kept = [turn not in found for turn in members]
            out = drawn_out(members, kept, recipe.profiling)
            found |= {
                turn: Dropped.COVERAGE
                for turn, stays, gone in zip(members, kept, out, strict=True)
                if stays and gone
            }
    return found


def _final(turn: Turn, credit: Credit | None, dropped: Dropped | None) -> Credit:
    if credit is None:
        return Credit(turn=turn, score=None, advantage=None, dropped=dropped)
    return replace(credit, dropped=dropped or credit.dropped)
