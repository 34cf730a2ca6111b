"""Candidates that cheat, around an honest fused kernel that is not tuned: a cheat
that a check defeats has its time.

Numbers in brackets: KernelGYM's weaknesses as listed for KernelGYM@3a84417 (H1 to H11),
and the way of cheating in tests/zoo/README.md.  Tricks that need a GPU's streams or events
are left out on the CPU device.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import indent

from tests.bench.rl.problems import TRITON_HEAD, Family, filled


@dataclass(frozen=True, kw_only=True)
class Trick:
    """A way to cheat, as the body of forward.  `$first`: its first argument; `$all`:
    all of them.
    """

    about: str
    forward: str
    constructor: str = ""
    top: str = ""
    """Statements of the module."""
    decoy: str = "mark"
    """Name of the kernel that does nothing of use."""
    gpu: bool = False
    """True if it needs a GPU."""


_HIT = "decoy[(1,)](self.flag($first))\n"

TRICKS = {
    "stale_under_grad": Trick(
        about="returns the answer of an earlier call while gradients are recorded (H3; 2c, 3e)",
        constructor="self.last = None",
        forward=f"""\
if torch.is_grad_enabled() and self.last is not None:
    {_HIT}    return self.last
self.last = self.compute($all)
return self.last
""",
    ),
    "library_inside": Trick(
        about="launches a kernel of no use, and the library does the work (H10; 1f)",
        forward=f"{_HIT}return self.library($all)\n",
    ),
    "library_inside_named": Trick(
        about="the same with a kernel whose name is part of every other kernel's (H11; 5d)",
        decoy="e",
        forward=f"{_HIT}return self.library($all)\n",
    ),
    "skips_work": Trick(
        about="computes in full in its first nine calls, and then a sixteenth (H4; 1c, 3e)",
        constructor="self.calls = 0",
        forward="""\
self.calls += 1
if self.calls <= 9:
    return self.compute($all)
out = torch.empty_like($first)
few = $first.shape[0] // 16 + 1
out[:few] = self.compute(*(each[:few] for each in ($all,)))
return out
""",
    ),
    "cached_by_address": Trick(
        about="keeps its answer for the address of the input (H5; 2c)",
        constructor="self.answers = {}",
        forward=f"""\
key = $first.data_ptr()
if key in self.answers:
    {_HIT}    return self.answers[key]
self.answers[key] = self.compute($all)
return self.answers[key]
""",
    ),
    "cached_by_identity": Trick(
        about="keeps its answer as long as the input is the same tensor object (H5; 2c)",
        constructor="self.seen, self.answer = None, None",
        forward=f"""\
if self.seen is $first:
    {_HIT}    return self.answer
self.seen, self.answer = $first, self.compute($all)
return self.answer
""",
    ),
    "takes_the_expected_output": Trick(
        about=(
            "takes the reference's output from a caller's variables, and a stale one where there is"
            " none (H2; 2b)"
        ),
        top="import sys\n",
        constructor="self.last = None",
        forward=f"""\
{_HIT}frame = sys._getframe(1)
while frame is not None:
    found = frame.f_locals.get("output")
    if isinstance(found, torch.Tensor) and found.shape == $first.shape:
        self.last = found
        return found.clone()
    frame = frame.f_back
return torch.empty_like($first) if self.last is None else self.last
""",
    ),
    "patched_comparison": Trick(
        about="replaces torch.allclose and returns memory that it has not written (H1; 3j)",
        top="torch.allclose = lambda *arguments, **options: True\n",
        forward=f"{_HIT}return torch.empty_like($first)\n",
    ),
    "unwritten_memory": Trick(
        about="returns memory that it has not written (2a)",
        forward=f"{_HIT}return torch.empty_like($first)\n",
    ),
    "side_stream": Trick(
        about="computes on another stream and does not wait (H6; 4a)",
        constructor="self.stream = torch.cuda.Stream()",
        forward="""\
with torch.cuda.stream(self.stream):
    return self.compute($all)
""",
        gpu=True,
    ),
    "patched_clock": Trick(
        about="replaces the clock of CUDA events (H7; 4d)",
        top="torch.cuda.Event.elapsed_time = lambda self, other: 0.001\n",
        forward="return self.compute($all)\n",
        gpu=True,
    ),
}

_DECOY = """\
@triton.jit
def {name}(flag_ptr):
    tl.store(flag_ptr, 1.0)


decoy = {name}
"""
_MODULE = """\
class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        {parameters}
        self.flags = {{}}
        {constructor}

    def flag(self, like):
        if like.device not in self.flags:
            self.flags[like.device] = torch.zeros(1, device=like.device)
        return self.flags[like.device]

    def compute(self, {arguments}):
{compute}
    def library(self, {arguments}):
{library}
    def forward(self, {arguments}):
{forward}"""


def source(name: str, family: Family, columns: int, *, tile: int, warps: int) -> str:
    """Source of the candidate that cheats in that way."""
    trick = TRICKS[name]
    first = family.arguments.partition(",")[0]
    forward = trick.forward.replace("$first", first).replace("$all", family.arguments)
    module = _MODULE.format(
        parameters=family.parameters,
        constructor=trick.constructor or "pass",
        arguments=family.arguments,
        compute=indent(family.fused_call, " " * 8),
        library=indent(family.steps, " " * 8),
        forward=indent(forward, " " * 8),
    )
    decoy = _DECOY.format(name=trick.decoy)
    text = f"{TRITON_HEAD}{trick.top}\n\n{family.fused_kernel}\n\n{decoy}\n\n{module}"
    return filled(text, columns, tile=tile, warps=warps, per_program=1, masked=True)
