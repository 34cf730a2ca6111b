"""Specs of small problems for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from workers.protocol.problem_spec import ProblemSpec


def one_output(x: torch.Tensor, *, training: bool = False) -> ProblemSpec:
    """A problem with one input, and one output like it."""
    from workers.protocol import layout, problem_spec

    return problem_spec.ProblemSpec(
        inputs=layout.describe([x]),
        outputs=layout.describe(x),
        init=layout.describe([[], {}]),
        parameters={},
        training=training,
        truth="fp64",
        mutated_inputs=(),
        output_constant=False,
    )
