"""Options that declare advantages, the same for every command that computes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from app.cli.errors import BadInputError
from app.cli.number_range import NumberRange
from app.domain.credit import Alone, Declared, MethodOptions, MismatchRejection, Recipe, Shaping
from app.domain.credit.rejection import Level, Mismatch, Profiling
from app.export import mismatch_rejection

Decorated = Callable[..., Any]

EXPORTED = "advantages_"
"""Prefix of the options where the command has others of the same names."""


def options(prefix: str = "") -> Callable[[Decorated], Decorated]:
    """Decorator with all options but the method's; `prefix` stands before each name."""
    flag = "--" + prefix.replace("_", "-")
    help_prefix = "With --advantages: " if prefix else ""

    def option(name: str, **how: Any) -> Callable[[Decorated], Decorated]:
        how["help"] = help_prefix + how["help"]
        if not how.keys() & {"multiple", "is_flag"}:
            how["default"] = _NAMES[name.replace("-", "_")]
        return click.option(f"{flag}{name}", f"{prefix}{name.replace('-', '_')}", **how)

    listed = (
        option("run", multiple=True, help="Name of a run; may be repeated; by default all runs."),
        option("reward", help="Reward of a turn; by default ASSAY_REWARD."),
        option("gamma", type=NumberRange(0, 1), show_default=True, help="Discount between turns."),
        option(
            "shaping",
            type=click.Choice([str(one) for one in Shaping]),
            show_default=True,
            help="Change of rewards.",
        ),
        option(
            "alone",
            type=click.Choice([str(one) for one in Alone]),
            help="Advantage of a group of one; by default the method's.",
        ),
        option(
            "keep-void",
            is_flag=True,
            help="Keep turns without reward that follow a turn with a reward.",
        ),
        option(
            "keep-uniform",
            is_flag=True,
            help="Keep prompts with equal rewards at the end of all trajectories.",
        ),
        option("least-group", type=click.IntRange(1), help="Trajectories that a prompt needs."),
        option("prs", is_flag=True, help="Profiling-based rejection sampling (Dr. Kernel eq. 9)."),
        option(
            "without-rejected",
            is_flag=True,
            help="Leave turns rejected by MRS and PRS out of the baseline, too.",
        ),
        option("seed", type=int, show_default=True, help="Seed of the draws of PRS."),
    )

    def decorate(command: Decorated) -> Decorated:
        for each in reversed(listed):
            command = each(command)
        return command

    masked = (
        "Mask turns on which trainer and rollout engine disagree, by the trainer's log"
        " probabilities in this file."
    )
    rejects = mismatch_options(prefix, masked)
    return lambda command: decorate(rejects(command))


def mismatch_options(prefix: str, about: str) -> Callable[[Decorated], Decorated]:
    """Decorator with the options of mismatch rejection; `about`: help of the one
    that asks for it.
    """
    flag, name = "--" + prefix.replace("_", "-") + "mrs", f"{prefix}mrs"
    usual = Mismatch()
    path = click.Path(exists=True, dir_okay=False, path_type=Path)
    listed = (
        click.option(
            flag,
            name,
            type=path,
            metavar="FILE",
            help=f"{about} Lines as of assay mismatch --trainer.",
        ),
        click.option(
            f"{flag}-level",
            f"{name}_level",
            type=click.Choice([str(one) for one in Level]),
            help=f"Unit that has one ratio; by default {usual.level}.",
        ),
        click.option(
            f"{flag}-bounds",
            f"{name}_bounds",
            nargs=2,
            type=float,
            default=None,
            metavar="LOWER UPPER",
            help=f"Bounds of π_train / π_rollout; by default {usual.lower} {usual.upper}.",
        ),
        click.option(
            f"{flag}-veto",
            f"{name}_veto",
            type=NumberRange(0),
            help=f"Least ratio of a token; by default {usual.veto}, 0: none.",
        ),
        click.option(
            f"{flag}-partial",
            f"{name}_partial",
            is_flag=True,
            help="Keep turns without log probabilities.",
        ),
    )

    def decorate(command: Decorated) -> Decorated:
        for each in reversed(listed):
            command = each(command)
        return command

    return decorate


def mismatch_of(values: dict[str, Any], prefix: str = "") -> MismatchRejection | None:
    """Mismatch rejection that the options name; takes their values out of `values`.

    Raises CreditError for a file that cannot be read, BadInputError for settings without a file."""
    file, level, bounds, veto, partial = (
        values.pop(f"{prefix}mrs{name}") for name in ("", "_level", "_bounds", "_veto", "_partial")
    )
    if file is None:
        if partial or not {level, bounds, veto} <= {None}:
            flag = f"--{prefix}mrs".replace("_", "-")
            raise BadInputError(f"{flag}-…: expected {flag} FILE with it, got none")
        return None
    usual = Mismatch()
    lower, upper = bounds or (usual.lower, usual.upper)
    mismatch = Mismatch(
        level=Level(level or usual.level),
        lower=lower,
        upper=upper,
        veto=usual.veto if veto is None else veto or None,
    )
    return mismatch_rejection.declare(file, mismatch=mismatch, partial=partial)


def declared(method: str, values: dict[str, Any], usual_reward: str, prefix: str = "") -> Declared:
    """Advantages that the options name; takes their values out of `values`.

    Raises CreditError and UnknownRewardError (ValueErrors)."""
    given = {name: values.pop(f"{prefix}{name}") for name in _NAMES}
    mismatch = mismatch_of(values, prefix)
    recipe = Recipe(
        method=method,
        options=MethodOptions(
            gamma=given["gamma"],
            shaping=Shaping(given["shaping"]),
            alone=Alone(given["alone"]) if given["alone"] else None,
        ),
        void_turns=not given["keep_void"],
        least_std=None if given["keep_uniform"] else Recipe().least_std,
        least_group=given["least_group"],
        profiling=Profiling(seed=given["seed"]) if given["prs"] else None,
        rejected_in_baseline=not given["without_rejected"],
    )
    return Declared(
        reward=given["reward"] or usual_reward,
        recipe=recipe,
        runs=tuple(given["run"]),
        mismatch=mismatch,
    )


def asked(method: str | None, values: dict[str, Any], usual_reward: str) -> Declared | None:
    """Advantages that the options with the prefix EXPORTED name; None without a method.

    Takes their values out of `values`.  Raises BadInputError for options without a method."""
    if method is not None:
        return declared(method, values, usual_reward, EXPORTED)
    given = {name: values.pop(f"{EXPORTED}{name}") for name in _NAMES}
    changed = [name for name, value in given.items() if value != _NAMES[name]]
    changed += ["mrs"] if mismatch_of(values, EXPORTED) is not None else []
    if changed:
        flags = ", ".join(f"--{EXPORTED}{name}".replace("_", "-") for name in changed)
        raise BadInputError(f"{flags}: expected --advantages METHOD with it, got none")
    return None


_NAMES: Mapping[str, Any] = {
    "run": (),
    "reward": None,
    "gamma": 1.0,
    "shaping": str(Shaping.NONE),
    "alone": None,
    "keep_void": False,
    "keep_uniform": False,
    "least_group": 1,
    "prs": False,
    "without_rejected": False,
    "seed": 0,
}
"""Parameters of `options` without prefix, and their defaults."""
