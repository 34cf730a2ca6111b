"""Closer looks at outputs that are right as a whole: at their slices, and at the changes that they
make to an input.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from workers.protocol import layout, problem_spec
from workers.referee.comparison import kept_inputs
from workers.referee.comparison.correctness import ComparedOutput
from workers.referee.session.batches import Batch, Delivery, Truth, calls_of, leaf_views

Inputs = list[tuple[int, torch.Tensor]]
"""Indices and elements of some inputs of a call."""


def looked_at(
    compared: Sequence[ComparedOutput],
    parts: Sequence[Delivery],
    truth: Truth,
    arena: problem_spec.Arena,
    most: int,
) -> list[ComparedOutput]:
    """The outputs after a look at the first `most` calls of some deliveries, of which `truth` has
    the expected outputs.
    """
    found = [
        output.by_slices(most, *pair)
        for output, *pair in zip(compared, truth.expected, truth.baseline, strict=True)
    ]
    given = [_inputs(part, call, arena) for part, call in calls_of(parts)[:most]]
    return [
        output.by_changes([each[at] for each in given], *pair)
        for at, (output, *pair) in enumerate(
            zip(found, truth.expected, truth.baseline, strict=True)
        )
    ]


def depend_on_small_changes(delivery: Delivery, truth: Truth, arena: problem_spec.Arena) -> bool:
    """Test whether small changes to an input decide about an output of the first call of a
    delivery: it leaves them out, or the right answer does by rounding.
    """
    given = _inputs(delivery, 0, arena)
    outputs = [leaf[0] for leaf in leaf_views(delivery.outputs, arena.outputs)]
    expected, baseline = ([leaf[0].reshape(-1) for leaf in side] for side in truth)
    return any(
        kept_inputs.first(got, exact, own, inputs) is not None
        or kept_inputs.rounds_to_one(exact, own, inputs)
        for got, exact, own, inputs in zip(outputs, expected, baseline, given, strict=True)
    )


def are_inputs(batch: Batch, truth: Truth, arena: problem_spec.Arena) -> bool:
    """Test whether every right output of a batch's first call, before rounding, has the elements
    of one of its inputs, in their order in memory.
    """
    if batch.inputs is None:
        return False
    given = [leaf[0] for leaf in leaf_views(batch.inputs[:1], arena.inputs)]
    return all(
        any(torch.equal(exact[0], each.to(exact.dtype)) for each in given)
        for exact in truth.expected
    )


def _inputs(delivery: Delivery, call: int, arena: problem_spec.Arena) -> list[Inputs]:
    """Per output, the inputs of a call with its type and shape; none if calls are streamed."""
    batch, slot = delivery.batch, delivery.first + call
    if batch.inputs is None:
        return [[] for _ in arena.outputs.leaves]
    given = leaf_views(batch.inputs[slot : slot + 1], arena.inputs)
    return [
        [
            (at, values[0])
            for at, (leaf, values) in enumerate(zip(arena.inputs.leaves, given, strict=True))
            if _are_alike(leaf, output)
        ]
        for output in arena.outputs.leaves
    ]


def _are_alike(given: layout.Node, output: layout.Node) -> bool:
    """Test whether an input has an output's type and shape, element by element in memory."""
    same = all(given.get(key) == output.get(key) for key in ("kind", "dtype", "shape"))
    return same and given.get("kind") == "tensor" and not given.get("stride")
