"""The shim inside a candidate's process: answers the referee's commands by running the candidate.

Once the source has been executed, the candidate can change everything in this process.  So its
reports are testimony; verdicts rest on the bytes of the outputs and on the referee's clock.
"""

from __future__ import annotations

import functools
import io
import json
import mmap
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from workers import backends
from workers.backends.recording.recorder import KEEPING, synchronise
from workers.backends.support import import_hook
from workers.protocol import (
    control_channel,
    kernel_code,
    launch_records,
    layout,
    precision_flags,
    pretrained,
    problem_spec,
    shared_memory,
)
from workers.protocol.control_channel import AblationMode, Command, Reply, ReplyCode, Request
from workers.shims import call_errors, calls, kineto, shortages, warmup, weights
from workers.shims.caught_failures import CaughtFailures
from workers.shims.heap import Fillers
from workers.shims.stack_depth import at_random_depth

_IS_DETERMINISTIC = torch._C._get_deterministic_algorithms


def prepare() -> None:
    """Prepare the zygote for all candidates."""
    device = torch.device(os.environ["EVALUATION_DEVICE"])
    if device.type == "cuda":
        warmup.build_stubs(device)
        warmup.load_compiler()
    warmup.fill_heap()


def serve(channel: socket.socket, scratch: Path) -> None:
    """Answer commands until the channel closes."""
    control_channel.answer_requests(channel, Shim(scratch).answer)


class Shim:
    """The shim of one candidate, from source to calls."""

    def __init__(self, scratch: Path) -> None:
        """`scratch`: the only folder that may be written."""
        for stream in (sys.stdout, sys.stderr):  # a process that is killed flushes nothing
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(write_through=True)
        self._scratch = scratch
        self._device = torch.device(os.environ["EVALUATION_DEVICE"])
        self._mailbox: mmap.mmap | None = None
        self._fillers: Fillers | None = None
        self._spec: problem_spec.ProblemSpec | None = None
        self._entry: Any = None
        self._model: Any = None
        self._called: Any = None
        """The model, or its KeywordModel if the problem names its inputs."""
        self._unmatched = ""
        """Weights of the problem that match no parameter of the model, as text."""
        self._arena: problem_spec.Arena | None = None
        self._memory: shared_memory.Memory | None = None
        self._slots: calls.Slots | None = None
        self._shared = calls.Shared()
        if self._device.type == "cuda":
            self._shared.forget_after_release()
        self._stand_ins: dict[str, str] = {}
        """Constants of the problem, and the model's stand-in for each, by name."""
        self._caught = CaughtFailures()
        self._recorder: backends.Recorder = backends.Recorder(failed=self._caught.note)
        self._modes: list[AblationMode] = []
        """One mode for each call of a RUN; empty if one mode holds for all."""
        import_hook.once_imported("transformers", pretrained.offline)

    def answer(self, request: Request, run: Callable[..., int] = calls.Slots.run) -> Reply:
        """Carry out one request.  Every exception of candidate code is caught here.

        `run` is bound when this class is defined, before any candidate code exists, so that
        replacing the method has no effect on a block's calls.
        """
        command, _, a, b, c, *_ = request
        failure = {
            Command.LOAD: ReplyCode.LOAD_FAILED,
            Command.ARENA: ReplyCode.CONSTRUCT_FAILED,
            Command.RENEW: ReplyCode.CONSTRUCT_FAILED,
        }
        try:
            # RUN comes first, because the clock is running.
            if command == Command.RUN and self._slots is not None:
                if self._modes:
                    return Reply(ReplyCode.DONE, self._run_in_modes(self._slots, run, a, c))
                if self._recorder.ablate != AblationMode.HONEST:
                    return Reply(ReplyCode.DONE, self._run_watched(self._slots, run, a, b, c))
                return Reply(ReplyCode.DONE, run(self._slots, self._called, a, b, c))
            return self._carried_out(request)
        except BaseException as error:
            assert self._mailbox is not None
            otherwise = failure.get(Command(command), ReplyCode.CALL_FAILED)
            length = control_channel.put_text(self._mailbox, call_errors.explain(error))
            return Reply(call_errors.outcome_of(error, otherwise), 0, length)

    def _carried_out(self, request: Request) -> Reply:
        """The reply to any request but RUN; raises every error of candidate code."""
        command, _, a, b, c, seed, fd = request
        if command == Command.LOAD and fd is not None:
            return self._load(fd, a, b)
        if command == Command.ARENA and fd is not None:
            return self._construct(fd, problem_spec.Slots(a, b), seed)
        if command == Command.RENEW:
            return self._renew(seed)
        if command == Command.REFIT:
            return self._refit()
        if command == Command.SEGMENT:
            return calls.share(self._shared, a)
        if command == Command.PROFILE and self._slots is not None:
            return Reply(ReplyCode.DONE, self._profile(self._slots, a, b))
        if command == Command.EVENTS and self._slots is not None:
            return Reply(ReplyCode.DONE, self._slots.event_mean(self._called, a, b, c))
        if command == Command.CAPTURE and self._slots is not None:
            self._slots.capture(self._called, a, b, c)
            return Reply(ReplyCode.DONE)
        if command == Command.TESTIFY:
            return self._testify()
        if command == Command.CAUGHT and self._mailbox is not None:
            told = control_channel.put_text(self._mailbox, self._caught.text())
            return Reply(ReplyCode.DONE, 0, told)
        if command == Command.SHORTAGES:
            return Reply(ReplyCode.DONE, shortages.count())
        if command == Command.CODE and self._mailbox is not None:
            found = ((name, kernel.asm) for name, kernel in self._recorder.compiled.items())
            return Reply(ReplyCode.DONE, kernel_code.write(self._mailbox, found))
        if command == Command.WARM:
            warmup.make_context(self._device)
            return Reply(ReplyCode.DONE)
        if command == Command.COMPILE_FIRST:
            warmup.compile_first(self._device)
            return Reply(ReplyCode.DONE)
        if command == Command.ABLATE:
            self._choose_modes(control_channel.unpacked_modes(a, b))
            return Reply(ReplyCode.DONE, self._recorder.left_out, self._recorder.mapped)
        return Reply(ReplyCode.UNSUPPORTED)

    def _load(self, fd: int, source_bytes: int, spec_bytes: int) -> Reply:
        """Execute the source by its backend's rules."""
        box = self._mailbox = mmap.mmap(fd, control_channel.MAILBOX_BYTES)
        os.close(fd)
        fields = json.loads(box[control_channel.SPEC_AT : control_channel.SPEC_AT + spec_bytes])
        self._spec = problem_spec.ProblemSpec.checked(fields["spec"])
        precision_flags.choose(self._spec.numerics)
        backend = backends.BACKENDS[fields["backend"]]
        path = self._scratch / "candidate.py"
        path.write_bytes(box[control_channel.SOURCE_AT : control_channel.SOURCE_AT + source_bytes])
        name = f"{fields['entry_point']}New"
        try:
            module = backend.build(path, self._recorder)
        except SyntaxError as error:
            return Reply(
                ReplyCode.SYNTAX_ERROR, 0, control_channel.put_text(box, call_errors.explain(error))
            )
        except ImportError as error:
            return Reply(
                ReplyCode.IMPORT_FAILED,
                0,
                control_channel.put_text(box, call_errors.explain(error)),
            )
        self._entry = getattr(module, name, None)
        if not isinstance(self._entry, type):
            text = f"expected a class {name}, found {_found(module, self._entry)}\n"
            return Reply(ReplyCode.NO_ENTRY_POINT, 0, control_channel.put_text(box, text))
        return Reply(ReplyCode.DONE)

    def _construct(self, fd: int, slots: problem_spec.Slots, seed: bytes) -> Reply:
        """Build the model as the reference was built, then give it the reference's parameters."""
        assert self._spec is not None
        assert self._mailbox is not None
        self._arena = arena = problem_spec.arena(self._spec, slots)
        self._memory = memory = shared_memory.attach(self._device, fd, arena.candidate_bytes)
        if self._device.type == "cpu":
            self._recorder.arena = range(
                memory.whole.data_ptr(), memory.whole.data_ptr() + arena.candidate_bytes
            )
        os.close(fd)  # the mapping keeps the memory; a descriptor would keep it beyond that
        self._fillers = Fillers()
        self._build(seed)
        given = self._fit()
        bits = self._bits(given) if isinstance(self._model, torch.nn.Module) else 0
        self._slots = calls.Slots(self._spec, arena, memory, self._shared, self._mailbox)
        told = control_channel.put_text(self._mailbox, self._unmatched)
        return Reply(ReplyCode.DONE, bits, told)

    def _bits(self, given: set[str]) -> int:
        """Bits: the spec's constants that the model has and, from ABSENT_BIT on,
        those without a counterpart in it.
        """
        assert self._spec is not None
        theirs = self._values()
        constants = {name: theirs[name] for name in self._spec.constants}
        self._stand_ins = weights.stand_ins(self._model, constants, given)
        absent = weights.absent(self._model, constants, given)
        named = given | set(self._stand_ins)
        return sum(
            1 << bit + control_channel.ABSENT_BIT * (name in absent)
            for bit, name in enumerate(self._spec.constants)
            if name in named or name in absent
        )

    def _values(self) -> dict[str, torch.Tensor]:
        """Weights of the problem by name: views of the arena."""
        assert self._spec is not None
        assert self._arena is not None
        assert self._memory is not None
        return dict(
            zip(self._spec.parameters, self._arena.parameters.views(self._memory, 0), strict=True)
        )

    def _build(self, seed: bytes) -> None:
        """Construct the model; its parameters are not yet the reference's."""
        assert self._spec is not None
        assert self._arena is not None
        assert self._memory is not None
        positional, keyword = layout.rebuild(
            self._spec.init, iter(self._arena.init.views(self._memory, 0))
        )
        calls.seed_everything(seed, calls.CONSTRUCTING)
        self._model = self._entry(*positional, **keyword)
        if isinstance(self._model, torch.nn.Module):
            self._model = self._model.to(self._device)
        case = self._spec.case
        self._called = (
            calls.KeywordModel(self._model, case.keywords)
            if case and case.keywords
            else self._model
        )

    def _fit(self) -> set[str]:
        """Copy the reference's values into every parameter and buffer that agrees in name, shape
        and dtype, or that stands in for another name; returns the names that agree.
        """
        assert self._spec is not None
        assert self._arena is not None
        assert self._memory is not None
        given: set[str] = set()
        if not isinstance(self._model, torch.nn.Module):
            return given
        theirs = self._values()
        others = {ours: theirs[name] for name, ours in self._stand_ins.items()}
        with torch.no_grad():
            for name, ours in weights.named(self._model):
                value = None if is_lazy(ours) else theirs.get(name, others.get(name))
                if value is not None and value.shape == ours.shape and value.dtype == ours.dtype:
                    ours.copy_(value)
                    given |= {name} & theirs.keys()
            weights.load(self._model, theirs)
        self._unmatched = weights.unmatched(self._model, theirs, given)
        calls.set_mode(self._model, training=self._spec.training)
        return given

    def _renew(self, seed: bytes) -> Reply:
        """Replace the model by a new one; the first model's memory is released beforehand."""
        self._choose_modes([AblationMode.HONEST])
        self._model = self._called = None
        self._build(seed)
        return Reply(ReplyCode.DONE)

    def _refit(self) -> Reply:
        """Copy the weights in the arena into the model, and wait for all streams: work on other
        streams than the referee's may begin as soon as the answer is sent.
        """
        self._fit()
        if self._device.type == "cuda":
            synchronise()
        return Reply(ReplyCode.DONE)

    def _profile(self, slots: calls.Slots, slot: int, count: int) -> int:
        """Profile calls from `slot` on and deliver their outputs; returns nanoseconds of device
        time of the first call, without delivery, which is no work of the candidate's.

        `count`: 0 for one call with its own launches timed by events; else the number of
        calls for the driver's profiler.
        """
        values: dict[int, list[tuple[Any, torch.Tensor]]] = {}

        def call(index: int = 0) -> None:
            launch = functools.partial(slots.launch, self._called, slot + index)
            values[index] = at_random_depth(launch)  # a second one of the same is not delivered

        def deliver(index: int = 0) -> None:
            slots.deliver(values.pop(index))

        if count:
            whole_ns, self._recorder.rows = kineto.profile(
                call, deliver, count, self._scratch, self._recorder.names
            )
            return whole_ns
        assert self._spec is not None
        # A second call would change once more the inputs that belong to the answer.
        repeats = not self._spec.compared_inputs
        return self._recorder.profile(self._device, call, deliver, repeats=repeats)

    def _choose_modes(self, modes: list[AblationMode]) -> None:
        """Set the substitute for kernel launches: one, or one for each call of a RUN."""
        self._modes = modes if len(modes) > 1 else []
        self._set_ablation_mode(modes[0])

    def _run_in_modes(
        self, slots: calls.Slots, run: Callable[..., int], first: int, delivering: int
    ) -> int:
        """Make calls from slot `first` on, each with its own substitute for kernel launches;
        returns nanoseconds by this process's clock.
        """
        spent_ns = 0
        for slot, mode in enumerate(self._modes, first):
            self._set_ablation_mode(mode)
            spent_ns += self._run_watched(slots, run, slot, 1, delivering)
        return spent_ns

    def _run_watched(
        self, slots: calls.Slots, run: Callable[..., int], first: int, count: int, delivering: int
    ) -> int:
        """Make calls with substitutes for kernel launches; in the modes KEEP and NOTE the inputs of
        the first one are noted.  Returns nanoseconds by this process's clock.
        """
        if self._recorder.ablate in KEEPING:
            self._recorder.note_inputs(layout.values(slots.arguments(first)))

        def watched(*arguments: Any) -> Any:  # delivery is no work of the candidate's
            with self._recorder.watching():
                return self._called(*arguments)

        return run(slots, watched, first, count, delivering)

    def _set_ablation_mode(self, what: AblationMode) -> None:
        """Set the substitute for kernel launches.  Except for SILENT, unwritten memory is filled
        with NaN meanwhile: it may hold a kernel's output of an earlier call.
        """
        self._recorder.substitute(what)
        pretends = what not in (AblationMode.HONEST, AblationMode.SILENT)
        torch._C._set_deterministic_algorithms(pretends, warn_only=True)
        # A candidate that asks for the mode gets the answer that holds in its other calls.
        torch._C._get_deterministic_algorithms = (lambda: False) if pretends else _IS_DETERMINISTIC

    def _testify(self) -> Reply:
        """Write the launches of the profiled call into the mailbox, with the launch
        arguments that the builder needs.
        """
        assert self._mailbox is not None
        rows = launch_records.packed(self._recorder.rows)
        self._mailbox[control_channel.LAUNCHES_AT : control_channel.LAUNCHES_AT + len(rows)] = rows
        notes = json.dumps(self._recorder.signatures).encode()
        if len(notes) <= control_channel.TABLE_BYTES:
            self._mailbox[control_channel.NOTES_AT : control_channel.NOTES_AT + len(notes)] = notes
        return Reply(ReplyCode.DONE, len(rows) // launch_records.ROW.size, self._recorder.total)


def _found(module: ModuleType, entry: object) -> str:
    """Type of the object that a module has under the name of the class, or else the names of the
    classes that it defines, for a person who misspelt one.
    """
    if entry is not None:
        return f"an object of type {type(entry).__name__} under this name"
    own = [
        key
        for key, each in vars(module).items()
        if isinstance(each, type) and each.__module__ == module.__name__
    ]
    return ", ".join(own) or "none"


if __name__ == "__main__":
    sys.exit("started by the zygote only")
