"""Credit assignment for policy-gradient training: from rewards of turns to
advantages, without torch.

    turns     Turn: input of all methods; Credit: their output
    returns   returns-to-go, reward shaping
    rules     baselines and scalings within one group
    methods   METHODS: name → group, score and rule; `advantages` applies one
    pools     Reinforce-Ada: pool statistics, exit test, down-sampling
    tokens    REINFORCE++ over tokens
    rejection void turns, group filter, mismatch rejection (MRS), veto, rejection by profile (PRS)
    mismatch  metrics between trainer and rollout engine, and outcomes of mismatch
              rejection at many bounds
    recipe    `assign`: rejection and advantages in Dr. Kernel's order
    declared  Declared: a recipe with its reward, runs and trainer's log probabilities,
              for tables and exports

Standard library only, float64.  README.md beside this file lists the methods, their
sources and their bias.
"""

from __future__ import annotations

from app.domain.credit.declared import Declared, MismatchRejection
from app.domain.credit.methods import METHODS, Alone, Method, MethodOptions, advantages
from app.domain.credit.recipe import Recipe, assign
from app.domain.credit.returns import Shaping, returns_to_go, shaped
from app.domain.credit.turns import REASONS, Credit, CreditError, Dropped, TokenRatios, Turn

__all__ = [
    "METHODS",
    "REASONS",
    "Alone",
    "Credit",
    "CreditError",
    "Declared",
    "Dropped",
    "Method",
    "MethodOptions",
    "MismatchRejection",
    "Recipe",
    "Shaping",
    "TokenRatios",
    "Turn",
    "advantages",
    "assign",
    "returns_to_go",
    "shaped",
]
