"""Declared advantages: the reward, the method with its filters, and the runs with the turns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from app.domain import reward
from app.domain.credit.methods import Alone, Method, method_of
from app.domain.credit.recipe import Recipe
from app.domain.credit.rejection import Mismatch


@dataclass(frozen=True, kw_only=True)
class MismatchRejection:
    """Mismatch rejection of stored turns, with the trainer's log probabilities in a file."""

    file: str
    """Path of JSON lines, as `assay mismatch --trainer` reads."""
    sha256: str
    """Hash of the file's bytes."""
    mismatch: Mismatch = field(default_factory=Mismatch)
    partial: bool = False
    """True keeps turns without log probabilities of both sides, which are an error otherwise."""


@dataclass(frozen=True, kw_only=True)
class Declared:
    """Everything that advantages of stored turns depend on, except the turns.

    Raises CreditError for an unknown method, UnknownRewardError for an unknown
    reward; both are ValueErrors.
    """

    reward: str = reward.DEFAULT
    recipe: Recipe = field(default_factory=Recipe)
    runs: tuple[str, ...] = ()
    """Names of the runs with the turns; none: all runs."""
    mismatch: MismatchRejection | None = None
    """None: no mismatch rejection."""

    def __post_init__(self) -> None:
        method_of(self.recipe.method)
        reward.parse(self.reward)

    @property
    def applied(self) -> Recipe:
        """The recipe, with mismatch rejection if it is requested."""
        return (
            self.recipe
            if self.mismatch is None
            else replace(self.recipe, mismatch=self.mismatch.mismatch)
        )

    @property
    def method(self) -> Method:
        """The estimator."""
        return method_of(self.recipe.method)

    @property
    def alone(self) -> Alone:
        """Advantage of a row without others in its group."""
        return self.recipe.options.alone or self.method.alone
