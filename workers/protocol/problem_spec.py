"""The spec of a problem, and the layout of its arena in shared memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from workers.protocol import precision_flags
from workers.protocol.layout import (
    MAX_LEAVES,
    Node,
    Region,
    UnsupportedError,
    check,
    dtype_of,
    in_memory_order,
    lay_out,
    leaves,
    nelements,
    size_of,
    widened,
)
from workers.protocol.problem_case import NAME_CHARS, Case
from workers.protocol.reference_work import ReferenceWork

PAGE_BYTES = 4096
"""Alignment of input slots, so that inputs of later calls can be made unreadable
(workers/shims/hidden_inputs.py).
"""

OWN_TRUTH = "the reference's own precision"
"""`ProblemSpec.truth` of a reference that has no twin: its own outputs are the expected ones."""

FEW_ELEMENTS = 64
"""Elements from which on the norm of an output is much the same in every call."""

MAX_CONSTANTS = 32
"""Most constant parameters of a problem: each takes two bits in a candidate's answer
(control_channel.ABSENT_BIT).
"""

SMALL_CONSTANT = 1e-2
"""Largest value of a single-element parameter that counts as constant: it suppresses the term that
it scales.  A larger one may be a temperature.  Of a matrix, divided by the square root of a row's
length: torch initialises a layer of 16,384 inputs with less than that.
"""


Spread = tuple[tuple[float, float], ...]
"""Per output, differences between answers to the same inputs: relative L2, and the
largest error over rms.
"""


def checked_spread(fields: Any) -> Spread:
    """Read the spread from JSON written by the reference's process.  Raises ValueError."""
    found = tuple((float(l2), float(largest)) for l2, largest in fields)
    if len(found) > MAX_LEAVES or not all(0 <= each < math.inf for pair in found for each in pair):
        raise UnsupportedError(f"not a spread of outputs: {str(fields)[:80]}")
    return found


def _norms(fields: Any) -> tuple[float, ...]:
    found = tuple(map(float, fields))
    if len(found) > MAX_LEAVES or not all(0 <= each < math.inf for each in found):
        raise UnsupportedError(f"not norms of outputs: {str(fields)[:80]}")
    return found


@dataclass(frozen=True, kw_only=True)
class Peaks:
    """Measured device memory that the reference takes for one call, in bytes, beyond
    the memory that it keeps.
    """

    draw_bytes: int = 0
    """While inputs are drawn, with the inputs."""
    call_bytes: int = 0
    """During a call, with the outputs and without the inputs."""
    truth_bytes: int = 0
    """While the fp64 outputs are computed, with the fp64 inputs and outputs and without the twin's
    parameters (`ProblemSpec.twin_bytes`); 0 if the reference's own outputs are the expected ones.
    """

    @classmethod
    def checked(cls, fields: dict[str, Any]) -> Peaks:
        """Read the peaks from JSON written by the reference's process.  Raises UnsupportedError."""
        names = ("draw_bytes", "call_bytes", "truth_bytes")
        found = {name: int(fields[name]) for name in names}
        if not all(0 <= number < 1 << 50 for number in found.values()):
            raise UnsupportedError(f"not bytes of memory: {str(fields)[:80]}")
        return cls(**found)


def _microseconds(value: object) -> float:
    if not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise UnsupportedError(f"not a time: {str(value)[:80]}")
    return float(value)


def _recurrent(found: Any, parameters: dict[str, Any]) -> dict[str, int | None]:
    return {
        str(name): None if place is None else int(place)
        for name, place in found.items()
        if str(name) in parameters
    }


def _telling(found: Any, parameters: dict[str, Any]) -> dict[str, float]:
    named = {str(name): float(factor) for name, factor in found.items() if str(name) in parameters}
    if not all(factor and math.isfinite(factor) for factor in named.values()):
        raise UnsupportedError(f"not factors on parameters: {str(named)[:80]}")
    return named


def _compared(fields: dict[str, Any]) -> tuple[int, ...]:
    inputs = list(leaves(check(fields["inputs"])))
    found = tuple(int(index) for index in fields["compared_inputs"])
    if not all(0 <= index < len(inputs) and inputs[index]["kind"] == "tensor" for index in found):
        raise UnsupportedError(f"not inputs that can be compared: {str(found)[:80]}")
    return found


def _rows(value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or value < 1:
        raise UnsupportedError(f"not a number of rows: {str(value)[:80]}")
    return value


@dataclass(frozen=True, kw_only=True)
class ProblemSpec:
    """Specification of a problem: everything that its processes must agree on."""

    inputs: Node
    """List of the positional arguments of one call."""
    outputs: Node
    init: Node
    """List of two: positional and keyword arguments of the constructor."""
    parameters: dict[str, Node]
    """Parameters and buffers by name."""
    training: bool
    """True if the model runs in train mode; False in eval mode, which replaces train
    mode for a model with dropout.
    """
    truth: str
    """Method by which expected outputs are computed, a `Truth`
    (workers/shims/problem/answers/true_answer.py).
    """
    mutated_inputs: tuple[int, ...]
    """Leaves of the inputs that the reference itself changes."""
    compared_inputs: tuple[int, ...] = ()
    """Leaves of them whose content after a call belongs to its answer, such as a key-value cache
    (workers/shims/problem/answers/changed_inputs.py).  They are compared like outputs, after those.
    """
    output_constant: bool
    """True if different inputs gave the same outputs."""
    insensitive_to: tuple[str, ...] = ()
    """Inputs and parameters that do not affect the outputs
    (workers/shims/problem/input_sensitivity.py).
    """
    constants: tuple[str, ...] = ()
    """Parameters that affect the outputs and are constant until the model is trained
    (workers/shims/problem/constant_parameters.py).
    """
    recurrent: dict[str, int | None] = field(default_factory=dict)
    """Parameters used in every step of an iteration, whatever their values: matrices, with the row
    or column from which on they take a state; parameters that only add to it: -1; factors that say
    how much of it a step keeps: None.
    """
    telling: dict[str, float] = field(default_factory=dict)
    """Parameters on which operators miss limits, vanish or change nothing, and the factor with
    which they do less so (workers/shims/problem/telling_weights.py).
    """
    call_us: float = 0.0
    """Least time of a call of the reference, in microseconds, when the problem was described."""
    work: ReferenceWork = field(default_factory=ReferenceWork)
    """Work of one call of the reference."""
    spread: Spread = ()
    """Errors that the reference's own answer may have at least, if the order of its sums varies or
    its products may be in TF32 (workers/shims/problem/answers/tf32_products.py); else empty.
    """
    usual_norms: tuple[float, ...] = ()
    """Per output, the L2 norm that it has on most of the problem's own inputs, if it has fewer than
    FEW_ELEMENTS: it may cancel to almost nothing in one call.  0 for other outputs.
    """
    peaks: Peaks = field(default_factory=lambda: Peaks())
    """Measured device memory of the reference; zeros on the CPU."""
    piece_rows: int | None = None
    """Rows of a piece if the reference is computed piece by piece
    (workers/shims/problem/answers/pieces.py); None if as a whole.
    """
    operators: str | None = None
    """Semantic key of one call (workers/shims/problem/observers/operators.py); None if the model
    does not run under a dispatch mode.
    """
    case: Case | None = None
    """The case, for a problem by cases; None for a problem with a model."""
    numerics: dict[str, str | bool] = field(default_factory=precision_flags.chosen)
    """Numerical settings of the libraries in the problem's process (precision_flags.py)."""

    @classmethod
    def checked(cls, fields: dict[str, Any]) -> ProblemSpec:
        """Read a spec from JSON written by the reference's process.  Raises UnsupportedError."""
        parameters = fields["parameters"]
        if not isinstance(parameters, dict) or len(parameters) > MAX_LEAVES:
            raise UnsupportedError("not a table of parameters")
        return cls(
            inputs=check(fields["inputs"]),
            outputs=check(fields["outputs"]),
            init=check(fields["init"]),
            parameters={str(name): check(node) for name, node in parameters.items()},
            training=bool(fields["training"]),
            truth=str(fields["truth"])[:NAME_CHARS],
            spread=checked_spread(fields["spread"]),
            usual_norms=_norms(fields["usual_norms"]),
            mutated_inputs=tuple(int(index) for index in fields["mutated_inputs"]),
            compared_inputs=_compared(fields),
            output_constant=bool(fields["output_constant"]),
            insensitive_to=tuple(str(name)[:NAME_CHARS] for name in fields["insensitive_to"])[
                :MAX_LEAVES
            ],
            constants=tuple(name for name in map(str, fields["constants"]) if name in parameters)[
                :MAX_CONSTANTS
            ],
            recurrent=_recurrent(fields["recurrent"], parameters),
            telling=_telling(fields["telling"], parameters),
            call_us=_microseconds(fields["call_us"]),
            work=ReferenceWork.checked(fields["work"]),
            peaks=Peaks.checked(fields["peaks"]),
            piece_rows=_rows(fields["piece_rows"]),
            operators=(
                None if fields["operators"] is None else str(fields["operators"])[:NAME_CHARS]
            ),
            case=None if fields["case"] is None else Case.checked(fields["case"]),
            numerics=precision_flags.checked(fields["numerics"]),
        )

    @property
    def answer(self) -> list[Node]:
        """Everything of a call that is compared: what it returns, and inputs that it changes, with
        their dimensions as their memory holds them.
        """
        inputs = list(leaves(self.inputs))
        return [self.outputs, *(in_memory_order(inputs[index]) for index in self.compared_inputs)]

    @property
    def input_bytes(self) -> int:
        """Bytes of an input slot: the inputs of one call."""
        return lay_out(0, 1, [self.inputs], PAGE_BYTES).slot_bytes

    @property
    def output_bytes(self) -> int:
        """Bytes of an output slot: the answer to one call."""
        return lay_out(0, 1, self.answer).slot_bytes

    @property
    def expected_bytes(self) -> int:
        """Bytes of a slot for the expected outputs of one call, in fp64."""
        return lay_out(0, 1, list(map(widened, self.answer))).slot_bytes

    @property
    def parameter_bytes(self) -> int:
        """Bytes of all parameters and buffers."""
        return sum(map(size_of, self.parameters.values()))

    @property
    def twin_bytes(self) -> int:
        """Bytes of the parameters and buffers of the reference's twin, in fp64; 0 if
        it has none.
        """
        return (
            0
            if self.truth == OWN_TRUTH
            else sum(size_of(widened(node)) for node in self.parameters.values())
        )

    @property
    def slot_bytes(self) -> int:
        """Bytes of one call in the reference's arena with inputs, outputs, baseline
        and expected outputs.
        """
        return self.input_bytes + 2 * self.output_bytes + self.expected_bytes

    @property
    def bytes_moved(self) -> int:
        """Least number of bytes that one call must read and write: every input once
        and every output once.
        """
        found = [*leaves(self.inputs), *leaves(self.outputs)]
        return sum(nelements(leaf) * dtype_of(leaf).itemsize for leaf in found)


class Slots(NamedTuple):
    """Number of calls that an arena holds at a time, by kind of memory."""

    inputs: int
    """Input sets, and outputs that are copied."""
    expected: int
    """Expected outputs: as many as input sets if they are made together with those, fewer if they
    are made when outputs are verified, 0 if they have memory of their own (streamed calls).
    """

    @property
    def together(self) -> bool:
        """True if expected outputs are made together with the inputs."""
        return self.expected == self.inputs

    @property
    def streamed(self) -> bool:
        """True if there is memory for a single call, with its expected outputs in
        memory of their own.
        """
        return self.expected == 0


@dataclass(frozen=True, kw_only=True)
class Arena:
    """Layout of the arena, a shared memory.  The candidate's arena ends with `outputs`: expected
    outputs are never mapped into its process.
    """

    slots: Slots
    parameters: Region
    init: Region
    inputs: Region
    outputs: Region
    baseline: Region
    """The reference's outputs in its own precision.  If they are made when outputs are verified,
    they are `outputs`, whose memory is free then.
    """
    expected: Region
    """The outputs in fp64."""
    compared_inputs: tuple[int, ...] = ()
    """See ProblemSpec.compared_inputs: the last leaves of an output slot.  The candidate's are read
    from its input slot.
    """

    @property
    def candidate_bytes(self) -> int:
        """Size of the candidate's arena."""
        return self.outputs.stop

    @property
    def reference_bytes(self) -> int:
        """Size of the reference's arena."""
        return self.outputs.stop if self.slots.streamed else self.expected.stop


def arena(spec: ProblemSpec, slots: Slots | int) -> Arena:
    """The layout for a spec and numbers of slots; all processes compute the same.  A single number
    applies to both kinds of slots.
    """
    if isinstance(slots, int):
        slots = Slots(slots, slots)
    parameters = lay_out(0, 1, list(spec.parameters.values()))
    init = lay_out(parameters.stop, 1, [spec.init])
    inputs = lay_out(init.stop, slots.inputs, [spec.inputs], PAGE_BYTES)
    outputs = lay_out(inputs.stop, slots.inputs, spec.answer)
    exact = list(map(widened, spec.answer))
    if slots.together:
        baseline = lay_out(outputs.stop, slots.expected, spec.answer)
        expected = lay_out(baseline.stop, slots.expected, exact)
    elif slots.streamed:
        baseline, expected = replace(outputs, slots=1), lay_out(0, 1, exact)
    else:
        baseline, expected = outputs, lay_out(outputs.stop, slots.expected, exact)
    return Arena(
        slots=slots,
        parameters=parameters,
        init=init,
        inputs=inputs,
        outputs=outputs,
        baseline=baseline,
        expected=expected,
        compared_inputs=spec.compared_inputs,
    )
