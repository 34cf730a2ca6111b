"""Other evaluators' rules, applied to the same outputs, for comparison with their
tables.  They decide nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from app.domain.output_checks import PeerRule
from workers.protocol.roundoff import computable

TOLERANCES = {"allclose_1e-2": 1e-2, "allclose_1e-4": 1e-4}
"""KernelBench's rule of 2025 (KernelGYM's as well) and its later one for fp32."""

AT_ONCE = 1 << 26
"""Elements of a call compared at once: the rules make several copies of them."""


class PeerRules:
    """Calls that are right by each rule, out of those compared."""

    def __init__(self) -> None:
        """Without calls at first."""
        self._counts = {name: [0, 0] for name in TOLERANCES}

    def apply(self, got: list[torch.Tensor], baseline: list[torch.Tensor]) -> None:
        """Compare some calls.  `got`, `baseline`: (calls, elements) per output, in its type."""
        answers = [
            agree(mine, theirs, tuple(TOLERANCES.values()))
            for whole in zip(got, baseline, strict=True)
            for mine, theirs in zip(
                *(torch.split(leaf, AT_ONCE, dim=1) for leaf in whole), strict=True
            )
        ]
        for name, per_output in zip(TOLERANCES, zip(*answers, strict=True), strict=True):
            for call in zip(*per_output, strict=True):
                self._counts[name][0] += all(call)
                self._counts[name][1] += 1

    def results(self) -> tuple[PeerRule, ...]:
        """The counts of every rule."""
        return tuple(
            PeerRule(name=name, passed_calls=a, calls=b) for name, (a, b) in self._counts.items()
        )


def agree(
    got: torch.Tensor, baseline: torch.Tensor, tolerances: Sequence[float]
) -> list[list[bool]]:
    """Per tolerance and call, the result of torch.allclose(got, baseline, rtol=tolerance,
    atol=tolerance), the rule of other evaluators.

    What agrees with the least tolerance agrees with all, and nothing else is computed if every call
    does: each test is ten operations of the device, which other evaluations use as well.
    """
    got = got.to(baseline.dtype)
    got, baseline = computable(got), computable(baseline)
    found: dict[float, list[bool]] = {}
    for each in sorted(tolerances):
        found[each] = (
            torch.isclose(got, baseline, rtol=each, atol=each).flatten(1).all(dim=1).tolist()
        )
        if all(found[each]):
            break
    widest = found[each]
    return [found.get(tolerance, widest) for tolerance in tolerances]
