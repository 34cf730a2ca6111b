"""COLLECT: feedback in sentences: the outcome, its reason, and the next step."""

from __future__ import annotations

from app.domain.collection.answers import Why
from app.domain.collection.feedback import cheats, missing_names, quantities, unusable
from app.domain.collection.feedback.facts import FeedbackFacts, Kernel

GOOD_SHARE = 0.7
"""Share of the roofline from which little is left to gain."""
LITTLE_COVERAGE = 0.5
"""Share of kernel time in the candidate's kernels below which the feedback speaks of it."""
ENDED = "exited with code"
"""Words by which the referee says that a process ended by itself
(workers/sandbox/confined_process.py).
"""
HINTS = (
    "weights of the reference",
    "products of tl.dot",
    "@triton.autotune runs",
    "the reference's BatchNorm",
)
"""First words of the hints that follow the description of a wrong output
(workers/referee/wrong_output.py).
"""
COMPILED = ("gpu_compile", "build_failed")
"""Kinds of errors that a compiler reports; all others come up while the module is loaded."""


def render(facts: FeedbackFacts | None, why: Why) -> str:
    """See the package."""
    if facts is None:
        return unusable.sentence(why)
    if facts.hack:
        return _hack(facts)
    return _correct(facts) if facts.correct else _failed(facts)


def _failed(facts: FeedbackFacts) -> str:
    where = f" at line {facts.line} of your module" if facts.line is not None else ""
    match facts.status:
        case "compile_error":
            verb = "compile" if facts.error_kind in COMPILED else "load"
            return _with_log(f"Your module does not {verb}{where}: {_raised(facts)}", facts)
        case "runtime_error":
            return _with_log(f"Your module raised an error{where}: {_raised(facts)}", facts)
        case "incorrect":
            return _incorrect(facts)
        case "timeout":
            return _late(facts)
        case "out_of_memory":
            return _with_log(f"Your module ran out of memory{where}.", facts)
        case "crashed" if ENDED in facts.message:
            return (
                f"Your module ended: {facts.message}. Look for calls of exit, in Python or in a"
                " library."
            )
        case "crashed":
            return (
                f"Your module crashed: {facts.message}. Look for accesses outside of a tensor:"
                " wrong strides, missing masks, pointers to memory that was freed."
            )
    return "Your module could not be evaluated for a reason that is not its own."


def _raised(facts: FeedbackFacts) -> str:
    hint = missing_names.hint(facts.message)
    return f"{facts.message}.{hint}" if hint else facts.message


def _late(facts: FeedbackFacts) -> str:
    told = "Your module did not answer in time: an endless loop, a deadlock, or far too much work."
    if facts.on_gpu:
        return told
    return (
        f"{told} Here Triton kernels are interpreted, one program after the other: many small"
        " programs take long."
    )


def _incorrect(facts: FeedbackFacts) -> str:
    if facts.wrong:
        wrong = f"{facts.failed_calls} of {facts.calls} calls"
        told = [f"Your module runs, but its result is wrong in {wrong}."]
        told += facts.wrong
        told += [
            f"{part[0].upper()}{part[1:]}."
            for part in facts.message.split("; ")
            if part.startswith(HINTS)
        ]
        return "\n".join(told)
    return f"Your module runs, but its result is wrong: {facts.message}."


def _hack(facts: FeedbackFacts) -> str:
    told = ["Your module was not credited, because it broke the rules of the task."]
    told += cheats.sentences(facts.findings)
    told += _failures(facts)
    told.append(
        "Compute every output from the inputs of its own call, with kernels of your own that do the"
        " work."
    )
    return "\n".join(told)


def _correct(facts: FeedbackFacts) -> str:
    told = ["Your module is correct."]
    if facts.speedup is not None and facts.ci is not None:
        told.append(_speed(facts))
    told += _profile(facts)
    if facts.findings:
        told += ["A reviewer would ask about this:", *cheats.sentences(facts.findings)]
        told += _failures(facts)
    return "\n".join(told)


def _failures(facts: FeedbackFacts) -> list[str]:
    """Failures of its own kernels that the source caught, before the library did the work."""
    if not facts.failures:
        return []
    return ["Its source caught these failures of its own kernels:", *facts.failures]


def _speed(facts: FeedbackFacts) -> str:
    assert facts.ci is not None
    low, high = facts.ci
    times = ""
    if facts.candidate_us is not None and facts.reference_us is not None:
        times = (
            f": {quantities.time(facts.candidate_us)} a call, the reference"
            f" {quantities.time(facts.reference_us)}"
        )
    ratio = (
        f"{facts.speedup:.3g}× the speed of PyTorch ({facts.baseline}), 95 % interval {low:.3g} to"
        f" {high:.3g}"
    )
    verdict = "faster" if low > 1 else "slower" if high < 1 else "about as fast"
    device = facts.device if facts.on_gpu else "the CPU, where Triton kernels are interpreted"
    return f"It is {verdict} on {device}: {ratio}{times}."


def _profile(facts: FeedbackFacts) -> list[str]:
    """Roofline, coverage and the kernels that take the time: of GPUs only, where
    times mean something.
    """
    if not facts.on_gpu:
        return []
    told = []
    if facts.floor_us and facts.candidate_us:
        told.append(_roofline(facts, facts.floor_us, facts.candidate_us))
    if facts.coverage is not None and facts.coverage < LITTLE_COVERAGE:
        told.append(
            f"Only {quantities.share(facts.coverage)} of the GPU time is in your own kernels: "
            "the library calls around them limit the speed."
        )
    if facts.kernels:
        told.append("Kernels by GPU time:")
        told += [_kernel(kernel) for kernel in facts.kernels]
    return told


def _kernel(kernel: Kernel) -> str:
    whose = "yours" if kernel.own else "library"
    return (
        f"- {quantities.share(kernel.share)}: {kernel.name} ({whose}, {kernel.launches} launches)"
    )


def _roofline(facts: FeedbackFacts, floor_us: float, candidate_us: float) -> str:
    share = min(1.0, floor_us / candidate_us)
    moved = f" to move {quantities.amount(facts.bytes_moved, 'B')}" if facts.bytes_moved else ""
    work = f" and compute {quantities.amount(facts.flops, 'FLOP')}" if facts.flops and moved else ""
    left = "little is left to gain" if share >= GOOD_SHARE else "there is room"
    return (
        f"The device needs at least {quantities.time(floor_us)}{moved}{work}: "
        f"your module reaches {quantities.share(share)} of that limit, so {left}."
    )


def _with_log(text: str, facts: FeedbackFacts) -> str:
    return f"{text}\n\n```\n{facts.log}\n```" if facts.log else text
