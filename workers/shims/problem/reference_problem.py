"""The problem inside a reference's process: its module, its models, and the spec of
its inputs and outputs.
"""

from __future__ import annotations

import copy
import functools
import sys
import types
from collections.abc import Callable, Collection
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch

from workers.backends.support.time_limit import TimeLimit
from workers.protocol import layout, precision_flags, problem_spec
from workers.shims import call_errors, calls
from workers.shims.heap import Fillers
from workers.shims.problem import (
    cases,
    constant_parameters,
    input_sensitivity,
    memory_estimate,
    model_checks,
    problem_forms,
    seeding,
    telling_weights,
)
from workers.shims.problem.answers import (
    best_truth,
    changed_inputs,
    pieces,
    plain_convolutions,
    tf32_products,
    true_answer,
)
from workers.shims.problem.answers.true_answer import Truth
from workers.shims.problem.inputs.iterated_inputs import Iterations
from workers.shims.problem.observers.closed_gates import ClosedGates
from workers.shims.problem.observers.flops import FlopCounter
from workers.shims.problem.observers.operators import OperatorTrace
from workers.shims.problem.observers.weight_work import WeightWork
from workers.shims.problem.reference_session import Draw, Session, call, keep_little

Found = TypeVar("Found")

Answer = Callable[[Any, list[Any]], Any]
"""Function that calls a model on inputs and gives the whole answer (changed_inputs.py)."""

WATCHED_S = 10.0
"""Limit in processor seconds for a call with recorded operators: 100,000 operators."""


class Problem:
    """One problem: its executed module, and its specs, each determined once."""

    def __init__(self, scratch: Path, device: torch.device) -> None:
        """`scratch`: the only folder that may be written."""
        self.device = device
        self.by_cases = False
        self._scratch = scratch
        self._fillers = Fillers()
        self._module = types.ModuleType("reference")
        self._entry_point = "Model"
        self._specs: dict[int, problem_spec.ProblemSpec] = {}
        """Specs by case; a problem that is a model has number 0 only."""
        self._seeds_itself = False
        """True if the problem's code seeds the generators itself: seeds from outside do nothing."""
        self._draws_on_host: bool | None = True if device.type == "cpu" else None
        """True if factory functions in the problem's `get_inputs` make their tensors
        on the host; None until known.
        """
        self._plain_convolutions = False
        """True if the twin is faster without cuDNN (plain_convolutions.py)."""
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
            message = f"it needs the package {error.name!r}, which the worker's host does not have"
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
        self._fillers.renew()
        calls.seed_everything(seed, 1)
        positional, keyword = self._constructor_arguments()
        calls.seed_everything(seed, calls.CONSTRUCTING)
        if self.by_cases:
            model = cases.CaseModel(self._module.get_cases, case, self.device)
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
            self._fillers.renew()  # describing leaves holes
        elif isinstance(model, torch.nn.Module):
            calls.set_mode(model, training=self._specs[case].training)
        spec = self._specs[case]
        twin = true_answer.twin(model, Truth(spec.truth), plain=self._plain_convolutions)
        return Session(spec, draw, model, twin, init)

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
        """The spec, determined by running the model: types, shapes, mode, best truth, memory."""
        case = model.described() if self.by_cases else None
        calls.seed_everything(seed, calls.DRAWING)
        with memory_estimate.Peak(self.device) as drawing:
            inputs = self.draw(draw)
        described, before = layout.describe(inputs), copy.deepcopy(inputs)
        with memory_estimate.Peak(self.device) as calling:
            outputs = call(model, inputs)
        changed = problem_forms.changed(before, inputs)
        has_outputs, outputs = problem_forms.has_outputs(outputs), copy.deepcopy(outputs)
        given = functools.partial(_copied, before, changed)
        del inputs
        call_us = model_checks.fastest_us(model, given, self.device)
        was_training = bool(getattr(model, "training", False))
        training, spread = model_checks.settle_mode(model, given, outputs)
        others = self._others(draw, before, described)
        compared = self._compared(model, given, others, changed, has_outputs=has_outputs)
        answer = changed_inputs.answers(compared)
        outputs_node = model_checks.contiguous(layout.describe(outputs))
        if compared or training != was_training:
            outputs = copy.deepcopy(answer(model, given()))
        is_constant = self._is_constant(answer, model, draw, outputs, _copied(others, changed))
        ignored = self._ignored(answer, model, before, others, outputs)
        del others
        ask = functools.partial(call, model)
        rows = None if self.by_cases or changed else pieces.rows(ask, before, outputs)
        norms = model_checks.usual_norms(outputs, lambda: answer(model, self.draw(draw)))
        parameters = model_checks.parameters(model)
        given_bytes = memory_estimate.tensor_bytes([before, outputs]) + calling.bytes
        first = pieces.first(before, outputs, rows) if rows else (before, outputs)
        best, truth_bytes = self._truth(compared, model, *first, nodes=parameters, size=given_bytes)
        del outputs, first
        watched, places, uses = self._watched(model, given())
        spread = tf32_products.widest(spread, self._error_in_tf32(model, given, rows, places))
        return problem_spec.ProblemSpec(
            inputs=described,
            outputs=outputs_node,
            init=layout.describe(init),
            parameters=parameters,
            training=training,
            truth=best.value,
            spread=spread and (*spread, *[(0.0, 0.0)] * len(compared)),
            usual_norms=norms,
            mutated_inputs=tuple(changed),
            compared_inputs=compared,
            output_constant=is_constant,
            insensitive_to=ignored,
            constants=constant_parameters.of(model, ignored, uses),
            case=case,
            piece_rows=rows,
            call_us=call_us,
            **watched,
            peaks=problem_spec.Peaks(
                draw_bytes=drawing.bytes, call_bytes=calling.bytes, truth_bytes=truth_bytes
            ),
        )

    def _is_constant(
        self, answer: Answer, model: Any, draw: Draw, outputs: Any, others: list[Any]
    ) -> bool:
        """Test whether the answer to other inputs is `outputs`, too."""
        different = answer(model, others)
        return model_checks.is_constant(outputs, different, lambda: answer(model, self.draw(draw)))

    def _ignored(
        self, answer: Answer, model: Any, before: list[Any], others: list[Any], outputs: Any
    ) -> tuple[str, ...]:
        """Inputs and parameters that the answer does not depend on.  A case has no answer to inputs
        that are mixed from two draws.
        """
        if self.by_cases:
            return ()
        return input_sensitivity.insensitive_names(answer, model, before, others, outputs)

    def _compared(
        self,
        model: Any,
        given: Callable[[], list[Any]],
        others: list[Any],
        changed: list[int],
        *,
        has_outputs: bool,
    ) -> tuple[int, ...]:
        """The changed inputs that belong to the answer.  Raises ValueError for a model without an
        answer.
        """
        if self.by_cases:
            return ()
        found = changed_inputs.find(model, given, others, changed)
        if not (has_outputs or found):
            raise ValueError(problem_forms.without_outputs(changes_inputs=bool(changed)))
        return found

    def _watched(
        self, model: Any, inputs: list[Any]
    ) -> tuple[dict[str, Any], set[str], constant_parameters.Uses]:
        """`work`, `operators`, `recurrent` and `telling` of one call, empty if the model does not
        run under dispatch modes; places of its products; and the uses of weights that do not show.
        """
        iterations, gates = Iterations(model, layout.values(inputs)), ClosedGates()
        weights = WeightWork(model, layout.values(inputs))
        try:
            with (
                TimeLimit(WATCHED_S),
                weights,  # outside the others, which count its own operators otherwise
                FlopCounter(layout.values(inputs)) as counter,
                OperatorTrace(layout.values(inputs)) as trace,
                iterations,
                gates,
            ):
                outputs = call(model, inputs)
        except Exception:  # noqa: BLE001 (the problem's code may raise anything under a dispatch mode)
            return {}, set(), constant_parameters.Uses()
        looked_up = self.by_cases
        operators = None if looked_up else trace.key(layout.values(outputs))
        on_weights = weights.names(counter.bytes)
        work = replace(counter.work, tail_bytes=counter.tail_bytes(outputs), on_weights=on_weights)
        recurrent = dict.fromkeys(weights.decays()) | iterations.recurrent_places(model)
        found: dict[str, Any] = {"work": work, "operators": operators, "recurrent": recurrent}
        telling = telling_weights.factors(model, inputs, weights.missed)
        uses = constant_parameters.Uses(recurrent, gates.found, (*on_weights, *telling))
        return found | {"telling": telling}, counter.places, uses

    def _error_in_tf32(
        self, model: Any, given: Callable[[], list[Any]], rows: int | None, places: set[str]
    ) -> problem_spec.Spread:
        """Error of the model's answer if its products in these places are in TF32, where the
        problem allows that.  The CPU device says what a GPU would: there, too, a candidate's own
        products are in TF32 (workers/backends/interpreter/tf32_products.py).
        """
        allowed = {place for place, kind in precision_flags.chosen().items() if kind == "tf32"}
        if not places & allowed:
            return ()

        def ask() -> Any:
            return call(model, pieces.cut(given(), rows, 0) if rows else given())

        return self.if_it_fits(lambda: tf32_products.error(ask, places & allowed), ())

    def if_it_fits(self, find: Callable[[], Found], otherwise: Found) -> Found:
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
        if self.by_cases or not layout.same(inputs, others):
            return others
        self._seeds_itself = True
        unseeded = self.draw(draw)
        vary = not layout.same(others, unseeded)
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
                if call_errors.is_out_of_memory(error):
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

    def _truth(
        self,
        compared: tuple[int, ...],
        model: Any,
        inputs: list[Any],
        own: Any,
        *,
        nodes: dict[str, layout.Node],
        size: int,
    ) -> tuple[Truth, int]:
        """The best available truth for a model whose answer to these inputs is `own`, and the
        memory in bytes that it takes beside its twin; without room for one, the reference's own
        answer.  `nodes`: parameters; `size`: memory of a call.
        """
        leaves = list(nodes.values())
        if not model_checks.has_room_for_twin(self.device, leaves, size):
            return Truth.OWN, 0
        answer = functools.partial(changed_inputs.joined, compared=compared)
        with memory_estimate.Peak(self.device) as widening:
            best = self.if_it_fits(lambda: best_truth.find(model, inputs, own, answer), Truth.OWN)
            self._plain_convolutions = plain_convolutions.are_faster(
                model, inputs, best, self.device
            )
        return best, model_checks.truth_bytes(widening.bytes, leaves, best)


def _copied(inputs: list[Any], changed: Collection[int]) -> list[Any]:
    """Inputs for one call: a copy for a model that changes some of them."""
    return copy.deepcopy(inputs) if changed else inputs
