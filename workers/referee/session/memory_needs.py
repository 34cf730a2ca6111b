"""Device memory that an evaluation takes: inputs, outputs, models and their
temporaries, all processes together.

The figures follow from the problem's specification, which has the reference's own use as measured
(`peaks`), or a guess where nothing was measured.  An evaluation reserves them before it uses the
device (host/memory_budget.py).
"""

from __future__ import annotations

import itertools

from workers.protocol import layout
from workers.protocol.problem_spec import OWN_TRUTH, Arena, ProblemSpec
from workers.protocol.roundoff import is_inexact

WORKING_SETS = 4
"""Memory that a model computes with besides its inputs and outputs, in multiples of those: a guess
that suffices for most of KernelBench.  A model that needs more may run out of memory among others
and is tried again with more (evaluate.py).
"""

DRAWING = 3
"""Copies of its inputs that a reference makes to vary them."""

CHECKED, CHECKED_AT_MOST = 2, 4 << 30
"""Memory to verify a call, in addition to the copy of its outputs: in multiples of the outputs,
which are compared in parts (output_errors.AT_ONCE), and at most in bytes.
"""

BLOCKS = (4, 13)
"""Least and most blocks with inputs and outputs that the referee keeps at a time: the warm-up block
and two blocks for each of six groups; two groups if memory holds no more.
"""

MODELS = 2
"""Copies of the parameters: the reference's and the candidate's."""

NARROWED = 2
"""Memory of an answer with narrow products, in multiples of a plain one's: narrow factors and a
result are copies beside the wide ones (1.4 to 2.1 times as much as a plain one, measured).
"""

FEWEST_OPERATORS = 3
"""Operators without products from which on an answer may have a faint term: that term, its factor,
and a sum.
"""

LOOKED_AT, PERTURBED = 6, 2
"""Memory of a second look at a wrong call (workers/shims/problem/answers/equivalent_answers.py):
copies of the expected outputs, and of what computing these takes.
"""

CHECKING = 4
"""Temporaries of the comparison, in multiples of the compared outputs, if not every element
is finite; otherwise one or two.
"""


def of_evaluation(spec: ProblemSpec, arena: Arena, round_bytes: int, check_bytes: int) -> int:
    """Bytes of device memory that an evaluation takes, all its processes together.

    `round_bytes`: for inputs and outputs of a round, if more than two groups;
    `check_bytes`: compared at once.
    """
    sizes, slots = arena.slots, arena.inputs.slots
    expected = arena.expected.slot_bytes
    held = 2 * slots * arena.outputs.slot_bytes  # outputs where the two models put them
    arenas = arena.reference_bytes + arena.candidate_bytes
    models = of_models(spec)
    if sizes.streamed:
        return arenas + models + _of_streaming(spec, arena)
    per_call = spec.slot_bytes if sizes.together else spec.input_bytes + spec.output_bytes
    in_block = slots // 2 if sizes.together else slots
    copies = max(BLOCKS[0] * in_block * per_call, min(round_bytes, BLOCKS[1] * in_block * per_call))
    compared = max(expected, min(check_bytes, slots * expected))
    return arenas + models + copies + held + (CHECKING * compared + _of_temporaries(spec)) // 2


def _of_streaming(spec: ProblemSpec, arena: Arena) -> int:
    """Memory of a streamed call besides arenas and models: the candidate's, the referee's to verify
    outputs, and the reference's, which either draws inputs or computes expected outputs.
    """
    calling = max(spec.peaks.call_bytes, arena.outputs.slot_bytes)
    drawing = max(DRAWING * arena.inputs.slot_bytes, spec.peaks.draw_bytes, calling)
    products = 0 if spec.piece_rows is None else of_products(spec)
    expecting = arena.expected.slot_bytes + max(calling, spec.peaks.truth_bytes, products)
    return calling + of_verifying(arena.outputs.slot_bytes) + max(drawing, expecting)


def of_models(spec: ProblemSpec) -> int:
    """Bytes of both sides' models and of the reference's twin, if it has one;
    parameters in arenas are not counted.
    """
    return MODELS * spec.parameter_bytes + spec.twin_bytes


def resident(spec: ProblemSpec) -> int:
    """Bytes of `of_evaluation` that the reference's process has once the problem is
    described: the model and its twin.
    """
    return spec.parameter_bytes + spec.twin_bytes


def of_verifying(output_bytes: int) -> int:
    """Bytes that the referee takes to verify the outputs of one streamed call."""
    return output_bytes + min(CHECKED * output_bytes, CHECKED_AT_MOST)


def _of_temporaries(spec: ProblemSpec) -> int:
    """Memory that both models compute with besides inputs and outputs that are kept: as observed
    for the reference, else a guess.  Both take it for a moment, hardly ever together.
    """
    peaks = spec.peaks
    if peaks.call_bytes:
        looking = max(_of_looking(spec), of_products(spec))
        return 2 * peaks.call_bytes + max(peaks.draw_bytes, peaks.truth_bytes, looking)
    return 2 * WORKING_SETS * (spec.input_bytes + spec.expected_bytes)


def may_ask_of_products(spec: ProblemSpec) -> bool:
    """Test whether the problem may have products of which narrow ones can be predicted, or terms
    that can be left out (workers/shims/problem/answers/narrow_products.py).
    """
    plain = spec.case is None and not spec.mutated_inputs and spec.truth != OWN_TRUTH
    return plain and bool(spec.work.flops or spec.work.rest_operators >= FEWEST_OPERATORS)


def of_products(spec: ProblemSpec) -> int:
    """Bytes of an answer with narrow products: that of the twin, with a copy of its weights."""
    if not may_ask_of_products(spec):
        return 0
    return NARROWED * spec.peaks.truth_bytes + spec.twin_bytes


def _of_looking(spec: ProblemSpec) -> int:
    """Memory of a second look, which an answer without integers or booleans hardly ever needs; one
    that is computed in pieces needs it for a piece.
    """
    outputs = itertools.chain.from_iterable(map(layout.leaves, spec.answer))
    exact = any(not is_inexact(layout.dtype_of(leaf)) for leaf in outputs)
    if spec.piece_rows is not None or not exact:
        return 0
    return LOOKED_AT * spec.expected_bytes + PERTURBED * spec.peaks.truth_bytes


def least(spec: ProblemSpec) -> int:
    """Bytes below which the problem cannot be evaluated: one call of each side, and
    its expected outputs.
    """
    sides = 2 * (spec.input_bytes + spec.output_bytes + spec.parameter_bytes)
    return sides + max(spec.peaks.call_bytes, spec.expected_bytes)
