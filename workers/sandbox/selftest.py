"""Self-test of the sandbox on this host: a confined process attempts forbidden acts,
and their effects are checked.

    python -m workers.sandbox.selftest [--json] [--cuda]

Exit code 0: everything was refused; 1: an act succeeded (or, with --cuda, CUDA did
not work within the layers).
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import json
import os
import resource
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from workers.protocol import control_channel
from workers.protocol.control_channel import Command
from workers.sandbox import escape_attempts, layers, toolchain, zygote_client
from workers.sandbox.confined_process import ConfinedProcess
from workers.sandbox.polling import readable
from workers.sandbox.process_errors import Ended, TimedOut, ZygoteError

_ROLE = "workers.sandbox.escape_attempts"
_MEMORY_BYTES = 1 << 30
"""Address space of the process that attempts the acts; it tries to allocate as much again."""

TIMEOUT_S = 60.0
"""Seconds for a process to be ready, and for an act's outcome, on a host that is busy starting."""


@dataclass(frozen=True, kw_only=True)
class Act:
    """One forbidden act."""

    name: str
    succeeded: bool
    outcome: str
    """Answer of the kernel: the name of an errno or a signal, or the act's result."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """Result of the self-test on this host."""

    acts: tuple[Act, ...]
    active: tuple[str, ...]
    """Layers in force."""
    missing: tuple[str, ...]
    """Layers that this host does not allow, with the reason."""

    @property
    def succeeded(self) -> tuple[str, ...]:
        """Names of the acts that should have been refused."""
        return tuple(act.name for act in self.acts if act.succeeded)

    @property
    def marks(self) -> tuple[str, ...]:
        """Acts that succeeded, as entries for `Environment.sandbox_missing`."""
        return tuple(f"act:{name}" for name in self.succeeded)

    def require(self, *, allow_weak: bool) -> None:
        """Raise WeakSandboxError if an act succeeded, unless `allow_weak`."""
        if self.succeeded and not allow_weak:
            raise layers.WeakSandboxError(
                f"a confined process could {'; '.join(self.succeeded)}. Layers missing here: "
                f"{'; '.join(self.missing) or 'none'}. --allow-weak-sandbox serves all the same"
            )


def run() -> Report:
    """Attempt every act from a process that is confined like a candidate's; takes half a second.

    Raises ZygoteError if no process can be confined."""
    with ExitStack() as stack:
        zygote = stack.enter_context(zygote_client.Zygote((_ROLE,), {}))
        outer = stack.enter_context(_Outer())
        neighbours = [stack.enter_context(_spawn(zygote)) for _ in range(2)]
        inner = stack.enter_context(_spawn(zygote))
        targets = outer.targets([each.pid for each in neighbours])
        inner.send(json.dumps(asdict(targets)).encode())
        codes = [_receive(inner, index) for index in range(len(escape_attempts.ACTS))]
        tried = [
            _act(name, code, outer.saw(name, targets))
            for name, code in zip(escape_attempts.ACTS, codes, strict=True)
        ]
        return Report(acts=tuple(tried), active=tuple(inner.active), missing=tuple(inner.missing))


def _spawn(zygote: zygote_client.Zygote) -> ConfinedProcess:
    return zygote.spawn(_ROLE, memory_bytes=_MEMORY_BYTES, cpu_s=60)


def _receive(inner: ConfinedProcess, index: int) -> int:
    try:
        number, code = escape_attempts.OUTCOME.unpack(
            inner.receive(escape_attempts.OUTCOME.size, TIMEOUT_S)
        )
    except Ended as error:
        raise ZygoteError(
            f"act {index}: {error}\n{inner.output.decode(errors='replace')}".rstrip()
        ) from error
    if number != index:
        raise ValueError(f"expected the outcome of act {index}, got that of {number}")
    return int(code)


_REFUSING = (signal.SIGSYS, signal.SIGKILL)
"""Signals by which the kernel refuses: from the system-call filter, and for lack of memory."""


def _act(name: str, code: int, seen: bool) -> Act:
    """Result of an act.  One that neither succeeded nor was refused (it hung, it crashed) counts as
    a success: a check that could not run has not passed.
    """
    if code == 0 and seen:
        return Act(name=name, succeeded=True, outcome="it worked")
    if code == escape_attempts.UNFINISHED:
        return Act(
            name=name,
            succeeded=True,
            outcome=f"not known: it did not end within {escape_attempts.ACT_TIMEOUT_S:g} s",
        )
    if code < 0:
        number = signal.Signals(-code)
        return Act(name=name, succeeded=number not in _REFUSING, outcome=f"ended by {number.name}")
    return Act(
        name=name, succeeded=False, outcome=errno.errorcode.get(code, "reached no other process")
    )


class _Outer:
    """Objects outside of the sandbox that must stay out of reach.  Use as a context manager."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __enter__(self) -> _Outer:
        enter = self._stack.enter_context
        self._token = f"assay-{secrets.token_hex(16)}"
        self._shared_memory = Path("/dev/shm", self._token)
        self._stack.callback(self._shared_memory.unlink, missing_ok=True)
        self._folder = Path(
            enter(tempfile.TemporaryDirectory(prefix="assay-selftest-", dir="/var/tmp"))
        )
        self._folder.chmod(0o777)
        file = self._folder / "canary"
        file.write_text(self._token)
        file.chmod(0o644)
        self._file = enter(file.open("rb"))
        self._memory = ctypes.create_string_buffer(self._token.encode())
        self._processes = [self._start() for _ in range(3)]
        self._tcp = enter(socket.create_server(("127.0.0.1", 0)))
        self._udp = enter(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self._udp.bind(("127.0.0.1", 0))
        self._listen("\0" + self._token)
        self._listen(str(self._folder / "socket"))
        (self._folder / "socket").chmod(0o777)
        return self

    def _start(self) -> int:
        """A waiting process of the worker's uid, with the token as its name and in
        its environment.
        """
        process = self._stack.enter_context(
            subprocess.Popen(
                [self._token],
                executable="/bin/cat",
                stdin=subprocess.PIPE,
                env={"CANARY": self._token},
            )
        )
        self._stack.callback(process.kill)
        return process.pid

    def _listen(self, address: str) -> None:
        listener = self._stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(address)
        listener.listen()

    def targets(self, neighbour_pids: list[int]) -> escape_attempts.Targets:
        """Targets for the confined process."""
        return escape_attempts.Targets(
            token=self._token,
            file=str(self._folder / "canary"),
            folder=str(self._folder),
            outer_pid=os.getpid(),
            address=ctypes.addressof(self._memory),
            descriptor=self._file.fileno(),
            worker_pids=self._processes,
            neighbour_pids=neighbour_pids,
            tcp_port=self._tcp.getsockname()[1],
            udp_port=self._udp.getsockname()[1],
            abstract=self._token,
            socket=str(self._folder / "socket"),
            memory_bytes=_MEMORY_BYTES,
            # Without a uid of its own the limit counts in all that its user has, of
            # which some may end meanwhile.
            processes=2 * layers.MAX_PROCESSES,
        )

    def saw(self, name: str, targets: escape_attempts.Targets) -> bool:
        """Test whether an act that was not refused had an effect outside of the sandbox.  In a
        process namespace a pid may name another process, and in a private /dev/shm a file is
        invisible to others.
        """
        effects = {
            "trace the worker (ptrace)": lambda: not _alive(targets.worker_pids[0]),
            "kill a process of the worker's": lambda: not _alive(targets.worker_pids[1]),
            "limit a process of the worker's (prlimit)": lambda: (
                resource.prlimit(targets.worker_pids[2], resource.RLIMIT_CORE)[0]
                == escape_attempts.LIMIT
            ),
            "trace another candidate (ptrace)": lambda: not _alive(targets.neighbour_pids[0]),
            "kill another candidate": lambda: not _alive(targets.neighbour_pids[1]),
            "send over UDP": lambda: bool(readable(self._udp)),
            "write to shared memory of the host's": self._shared_memory.exists,
        }
        return effects.get(name, lambda: True)()

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def _alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat[stat.rindex(")") + 2] not in "ZX"


def try_cuda() -> str:
    """Make a CUDA context and launch a Triton kernel in a process that is confined
    like a candidate's.

    Returns the error, or an empty text.
    """
    passed_on = (
        "CUDA_VISIBLE_DEVICES",
        "CUDA_HOME",
        "LD_LIBRARY_PATH",
        "TRITON_LIBCUDA_PATH",
        "TRITON_PTXAS_PATH",
    )
    environment = {name: os.environ[name] for name in passed_on if name in os.environ}
    role = "workers.shims.candidate"
    with (
        zygote_client.Zygote(
            (role,), environment | {"EVALUATION_DEVICE": "cuda:0", "OMP_NUM_THREADS": "1"}
        ) as zygote,
        zygote.spawn(role, memory_bytes=0, cpu_s=600) as process,
    ):
        for sequence, command in enumerate((Command.WARM, Command.COMPILE_FIRST)):
            process.wait_ready(TIMEOUT_S)
            process.send(control_channel.REQUEST.pack(command, sequence, 0, 0, 0, 0, bytes(32)))
            try:
                outcome, *_ = control_channel.REPLY.unpack(
                    process.receive(control_channel.REPLY.size, TIMEOUT_S)
                )
            except (Ended, TimedOut) as error:
                return (
                    f"{command.name}:"
                    f" {error or 'no answer'}\n{process.output.decode(errors='replace')}"
                )
            if outcome != control_channel.ReplyCode.DONE:
                said = process.output.decode(errors="replace")
                return f"{command.name}: {control_channel.ReplyCode(outcome).name}\n{said}"
    return ""


def _table(report: Report) -> str:
    rows = [
        (act.name, "SUCCEEDED" if act.succeeded else "refused", act.outcome) for act in report.acts
    ]
    layers_in_force = [f"in force  {layer}" for layer in report.active]
    lines = [f"{name:48} {result:10} {outcome}" for name, result, outcome in rows]
    lines += ["", *layers_in_force, *(f"MISSING   {layer}" for layer in report.missing)]
    return "\n".join([*lines, "", f"{len(rows)} acts, {len(report.succeeded)} succeeded"])


def main(arguments: list[str]) -> int:
    """Run, print, return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    parser.add_argument(
        "--cuda", action="store_true", help="also make a CUDA context and launch a Triton kernel"
    )
    options = parser.parse_args(arguments)
    report = run()
    sys.stdout.write(
        (json.dumps(asdict(report), indent=2) if options.json else _table(report)) + "\n"
    )
    failure = try_cuda() if options.cuda else ""
    if options.cuda:
        sys.stdout.write(
            f"CUDA within the layers: {failure or 'a context and a Triton kernel worked'}\n"
        )
        lacking = ", ".join(toolchain.missing(cuda=True))
        sys.stdout.write(f"to compile CUDA C++ this host lacks: {lacking or 'nothing'}\n")
    return 1 if report.succeeded or failure else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
