"""The problem inside a reference's process: its module, its models, and the spec of
its inputs and outputs.
"""

from __future__ import annotations

import copy
import functools
import os
import sys
import time
import types
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeVar

import torch

from workers.protocol import (
    constant_parameters,
    layout,
    memory_estimate,
    precision_flags,
    problem_spec,
)
from workers.protocol.control_channel import ReplyCode
from workers.protocol.dispatch_mode import Limited
from workers.shims import (
    call_errors,
    calls,
    cases,
    input_sensitivity,
    pieces,
    problem_forms,
    rounding,
    seeding,
    tf32_convolutions,
    true_answer,
)
from workers.shims.flops import FlopCounter
from workers.shims.iterated_inputs import Iterations
from workers.shims.operators import OperatorTrace
from workers.shims.reference_session import Draw, Session, call, keep_little, settle

Found = TypeVar("Found")

WATCHED_S = 10.0
"""Time limit in seconds for a call whose operators are recorded."""

COPIES = 4
"""Copies of the parameters besides the twin's: in both arenas and in both models."""

FOR_MODELS = 0.8
"""Share of a device's memory for models, and for the inputs and outputs of calls;
contexts take the rest.
"""

TIMED_CALLS, TIMED_S = 5, 0.1
"""Most calls that are timed to find the fastest, and the total in seconds after
which no further call begins.
"""


class Problem:
    """One problem: its executed module, and its specs, each determined once."""

    def __init__(self, scratch: Path, device: torch.device) -> None:
        """`scratch`: the only folder that may be written."""
        self.device = device
        self.by_cases = False
        self._scratch = scratch
        self._module = types.ModuleType("reference")
        self._entry_point = "Model"
        self._specs: dict[int, problem_spec.ProblemSpec] = {}
        """Specs by case; a problem that is a model has number 0 only."""
        self._seeds_itself = False
        """True if the problem's code seeds the generators itself, so that seeds
        given to it have no effect.
        """
        self._draws_on_host: bool | None = True if device.type == "cpu" else None
        """True if factory functions in the problem's `get_inputs` make their tensors
        on the host; None until known.
        """
        self._sole = True
        """True if no other evaluation uses the device's memory, so that a failed
        allocation would always fail.
        """

    def load(self, source: bytes, entry_point: str, *, by_cases: bool) -> str:
        """Execute the problem's module; returns a message if it lacks a required name, else ""."""
        self._entry_point = entry_point
        path = self._scratch / "reference.py"
        path.write_bytes(source)
        self._module.__file__ = str(path)
        sys.modules["reference"] = self._module
        self._execute(path)
        self.by_cases = by_cases
        for name in ("get_cases",) if by_cases else (self._entry_point, "get_inputs"):
            if not callable(getattr(self._module, name, None)):
                return f"the reference defines no {name}{self._other_form(name)}\n"
        return ""

    def _execute(self, path: Path) -> None:
        try:
            exec(compile(path.read_bytes(), str(path), "exec"), self._module.__dict__)  # noqa: S102 (in the sandbox)
        except ModuleNotFoundError as error:
            message = (
                f"it needs the package {error.name!r}, which is not installed on the worker's host"
            )
            raise ModuleNotFoundError(message, name=error.name) from error

    def _other_form(self, missing: str) -> str:
        """Hint about the workflow that a reference without this name may be written for."""
        others = {"get_cases": ("kernelbench", self._entry_point)}
        workflow, name = others.get(missing, ("kernel_simple", "get_cases"))
        return (
            f", but {name}: is it for the workflow {workflow}?"
            if hasattr(self._module, name)
            else ""
        )

    def estimated_bytes(self, seed: bytes) -> int:
        """Estimate of the device memory that describing the problem takes, in bytes;
        uses no device memory.
        """
        if self.by_cases:
            return 0
        calls.seed_everything(seed, 1)
        positional, keyword = self._constructor_arguments()
        make = functools.partial(getattr(self._module, self._entry_point), *positional, **keyword)
        return memory_estimate.estimated_bytes(self._module.get_inputs, make)

    def session(self, case: int, seed: bytes, *, sole: bool) -> Session:
        """A session with a new model; the first one of a case also determines the spec.  `sole`: no
        other evaluation uses the device's memory.
        """
        self._sole = sole
        draw: Draw
        calls.seed_everything(seed, 1)
        positional, keyword = self._constructor_arguments()
        calls.seed_everything(seed, calls.CONSTRUCTING)
        if self.by_cases:
            model = cases.Answers(self._module.get_cases, case, self.device)
            draw = model.draw
        else:
            model = getattr(self._module, self._entry_point)(*positional, **keyword)
            draw = self._module.get_inputs
        if isinstance(model, torch.nn.Module):
            model = model.to(self.device)
        init = [positional, keyword]
        if case not in self._specs:
            self._specs[case] = self._inspect(model, draw, init, seed)
            keep_little(self.device)
        elif isinstance(model, torch.nn.Module):
            calls.set_mode(model, training=self._specs[case].training)
        spec = self._specs[case]
        return Session(
            spec, draw, model, true_answer.twin(model, true_answer.Truth(spec.truth)), init
        )

    def _constructor_arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments from `get_init_inputs()`, which returns a list of
        positional arguments, a dict, or [[positional…], {keyword…}].
        """
        given: Any = getattr(self._module, "get_init_inputs", list)()
        if isinstance(given, dict):
            return [], given
        pair = len(given) == 2 and isinstance(given[0], list | tuple) and isinstance(given[1], dict)
        return (list(given[0]), dict(given[1])) if pair else (list(given), {})

    def _inspect(
        self, model: Any, draw: Draw, init: list[Any], seed: bytes
    ) -> problem_spec.ProblemSpec:
        """The spec, determined by running the model: types and shapes, mode, changed
        inputs, best truth, memory.
        """
        case = model.described() if self.by_cases else None
        calls.seed_everything(seed, calls.DRAWING)
        with memory_estimate.Peak(self.device) as drawing:
            inputs = self.draw(draw)
        described = layout.describe(inputs)
        before = copy.deepcopy(inputs)
        with memory_estimate.Peak(self.device) as calling:
            outputs = call(model, inputs)
        changed = problem_forms.changed(before, inputs)
        problem_forms.check_outputs(outputs, is_case=case is not None, changes_inputs=bool(changed))
        outputs = copy.deepcopy(outputs)
        given: Callable[[], list[Any]] = (
            (lambda: copy.deepcopy(before)) if changed else (lambda: before)
        )
        del inputs
        call_us = _fastest_us(model, given, self.device)
        was_training = bool(getattr(model, "training", False))
        training, spread = _settle_mode(model, given, outputs)
        if training != was_training:
            outputs = _kept(model, given())
        others = self._others(draw, before, described)
        different = call(model, copy.deepcopy(others) if changed else others)
        problem_forms.check_constant(outputs, different)
        output_constant = layout.same(list(layout.values(outputs)), list(layout.values(different)))
        del different
        # A case has no answer to inputs that are mixed from two draws.
        ignored = (
            ()
            if self.by_cases
            else input_sensitivity.insensitive_names(call, model, before, others, outputs)
        )
        del others
        rows = (
            None if self.by_cases else pieces.rows(functools.partial(call, model), before, outputs)
        )
        outputs_node = _contiguous(layout.describe(outputs))
        tensors = (
            [*model.named_parameters(), *model.named_buffers()]
            if isinstance(model, torch.nn.Module)
            else []
        )
        given_bytes = memory_estimate.tensor_bytes([before, outputs]) + calling.bytes
        parameters = {
            name: layout.describe(tensor.detach().contiguous()) for name, tensor in tensors
        }
        has_room = _has_room_for_twin(self.device, list(parameters.values()), given_bytes)
        with memory_estimate.Peak(self.device) as widening:
            first = pieces.first(before, outputs, rows) if rows else (before, outputs)
            best = self._best(model, *first) if has_room else true_answer.Truth.OWN
        del outputs, first
        watched, convolves, recurrent = self._watched(model, given())
        if convolves:
            spread = tf32_convolutions.widest(spread, self._error_in_tf32(model, given, rows))
        return problem_spec.ProblemSpec(
            inputs=described,
            outputs=outputs_node,
            init=layout.describe(init),
            parameters=parameters,
            training=training,
            truth=best.value,
            spread=spread,
            mutated_inputs=tuple(changed),
            output_constant=output_constant,
            insensitive_to=ignored,
            constants=constant_parameters.of(model, ignored, recurrent),
            recurrent=recurrent,
            case=case,
            piece_rows=rows,
            call_us=call_us,
            **watched,
            peaks=problem_spec.Peaks(
                draw_bytes=drawing.bytes, call_bytes=calling.bytes, truth_bytes=widening.bytes
            ),
        )

    def _watched(
        self, model: Any, inputs: list[Any]
    ) -> tuple[dict[str, Any], bool, tuple[str, ...]]:
        """`flops` and `operators` of one call, empty if the model does not run under
        dispatch modes; whether it has a convolution; and names of the matrices that it uses
        in every step of an iteration.
        """
        iterations = Iterations(model, layout.values(inputs))
        try:
            with (
                Limited(WATCHED_S),
                FlopCounter() as counter,
                OperatorTrace(layout.values(inputs)) as trace,
                iterations,
            ):
                outputs = call(model, inputs)
        except Exception:  # noqa: BLE001 (the problem's code may raise anything under a dispatch mode)
            return {}, False, ()
        operators = (
            None if self.by_cases else trace.key(layout.values(outputs))
        )  # answers by cases are looked up
        flops = counter.total or None
        return (
            {"flops": flops, "operators": operators},
            counter.convolves,
            iterations.recurrent_names(model),
        )

    def _error_in_tf32(
        self, model: Any, given: Callable[[], list[Any]], rows: int | None
    ) -> problem_spec.Spread:
        """Error of the model's answer if its convolutions are in TF32, where the
        device and the problem allow that.
        """
        if self.device.type != "cuda" or precision_flags.chosen()["convolution"] != "tf32":
            return ()
        return self._if_it_fits(
            lambda: tf32_convolutions.error(
                lambda: call(model, pieces.cut(given(), rows, 0) if rows else given())
            ),
            (),
        )

    def _if_it_fits(self, find: Callable[[], Found], otherwise: Found) -> Found:
        """The result of a look at the reference, or `otherwise` if memory runs out
        although no other evaluation uses any.
        """
        try:
            return find()
        except torch.OutOfMemoryError:
            if not self._sole:  # it may fit when the evaluation is repeated alone
                raise
            torch.cuda.empty_cache()
            return otherwise

    def _others(self, draw: Draw, inputs: list[Any], described: layout.Node) -> list[Any]:
        """Inputs of another draw.  If they equal the first ones, the problem seeds itself or
        has constant inputs: its seeding is then disabled for good, if that gives different
        inputs of the same types and shapes.
        """
        others = self.draw(draw)
        if self.by_cases or not layout.same(
            list(layout.values(inputs)), list(layout.values(others))
        ):
            return others
        self._seeds_itself = True
        unseeded = self.draw(draw)
        vary = not layout.same(list(layout.values(others)), list(layout.values(unseeded)))
        if vary and layout.describe(unseeded) == described:
            return unseeded
        self._seeds_itself = False
        return others

    def draw(self, draw: Draw) -> list[Any]:
        """Inputs of one call, on the device.  Raises TypeError if the problem returns no list."""
        with seeding.unseeded(self._module) if self._seeds_itself else nullcontext():
            inputs = self._drawn(draw)
        if isinstance(inputs, dict) and not self.by_cases:
            inputs = problem_forms.in_order(inputs, getattr(self._module, self._entry_point))
        if not isinstance(inputs, list | tuple):
            raise TypeError(f"get_inputs: expected a list or a dict, got {type(inputs).__name__}")
        return list(layout.placed(inputs, self.device))

    def _drawn(self, draw: Draw) -> Any:
        """The result of the problem's code, whose factory functions make their tensors on the
        device if the first draw succeeds so: nothing is copied from the host then.  Code that uses
        a generator of the host, numpy or pinned memory makes them on the host.
        """
        if self._draws_on_host:
            return draw()
        if self._draws_on_host is None:
            states = seeding.states()
            try:
                with self.device:
                    inputs = draw()
            except Exception as error:
                if call_errors.outcome_of(error, ReplyCode.CALL_FAILED) == ReplyCode.OUT_OF_MEMORY:
                    raise
            else:
                self._draws_on_host = False
                return inputs
            seeding.restore(states)
            inputs = draw()
            self._draws_on_host = True
            return inputs
        with self.device:
            return draw()

    def _best(self, model: Any, inputs: list[Any], own: Any) -> true_answer.Truth:
        """The best available truth for a model whose answer to these inputs is `own`; without room
        for one, the reference's own answer.
        """
        return self._if_it_fits(lambda: true_answer.find(model, inputs, own), true_answer.Truth.OWN)


def _has_room_for_twin(
    device: torch.device, parameters: list[layout.Node], call_bytes: int
) -> bool:
    """Test whether a device holds both sides' models and arenas, and a copy of the model in fp64.

    `call_bytes`: inputs and outputs of a call, and the most memory that it takes."""
    if device.type != "cuda":
        return True
    total_bytes = int(os.environ["EVALUATION_MEMORY_BYTES"])  # without that of other programs
    twin_bytes = sum(layout.size_of(layout.widened(node)) for node in parameters)
    models_bytes = COPIES * sum(map(layout.size_of, parameters)) + twin_bytes
    return models_bytes + 2 * call_bytes <= FOR_MODELS * total_bytes


def _fastest_us(model: Any, given: Callable[[], list[Any]], device: torch.device) -> float:
    """Microseconds of the fastest of some calls; other evaluations on the device
    slow down some of them.
    """
    times_s: list[float] = []
    while len(times_s) < TIMED_CALLS and sum(times_s) < TIMED_S:
        inputs = given()
        settle(device)
        began = time.perf_counter()
        call(model, inputs)
        settle(device)
        times_s.append(time.perf_counter() - began)
    return min(times_s) * 1e6


def _kept(model: Any, inputs: list[Any]) -> Any:
    """Private copy of the answer to a call: some models return the same buffer every time."""
    return copy.deepcopy(call(model, inputs))


def _settle_mode(
    model: Any, given: Callable[[], list[Any]], outputs: Any
) -> tuple[bool, problem_spec.Spread]:
    """Mode of the model, and the spread of its answers: the declared mode if the model is a
    function of its inputs in it, else eval mode (dropout).  Sums without a fixed order cause
    spread.  Raises ValueError for a random model.
    """
    torch.manual_seed(0x5EED)  # a state that differs from the first call's
    again = _kept(model, given())
    if rounding.differs_by_rounding(outputs, again):
        return bool(getattr(model, "training", False)), _spread(model, given, outputs, again)
    if isinstance(model, torch.nn.Module):
        model.eval()
        one, two = (_kept(model, given()) for _ in range(2))
        if rounding.differs_by_rounding(one, two):
            return False, _spread(model, given, one, two)
    raise ValueError(
        "the reference is random: two calls on the same inputs differ by more than rounding, in"
        " eval mode too"
    )


def _spread(model: Any, given: Callable[[], list[Any]], one: Any, two: Any) -> problem_spec.Spread:
    """Differences between answers to the same inputs; empty if two answers are equal
    bit for bit.
    """
    if layout.same(list(layout.values(one)), list(layout.values(two))):
        return ()
    return rounding.spread(one, lambda: _kept(model, given()))


def _contiguous(node: layout.Node) -> layout.Node:
    """The node without strides: outputs are delivered contiguous."""
    plain = (
        dict(node, items=[_contiguous(item) for item in node["items"]])
        if "items" in node
        else dict(node)
    )
    if plain["kind"] == "tensor":
        plain["stride"] = None
    return plain
