"""Sources without their kernels, and copies in place of launches."""

import ast
from collections.abc import Callable
from typing import Any

import pytest
import torch

from app.domain.source import source_ablation
from workers.backends import triton
from workers.backends.recording import written_values
from workers.backends.recording.recorder import Recorder
from workers.backends.recording.scaled_copies import copy_first
from workers.protocol import control_channel
from workers.protocol.control_channel import AblationMode
from workers.protocol.launch_records import Launch

KERNELS = """
import triton
from triton import jit as tjit

@triton.jit
def plain(x, BLOCK: int):
    "Says what it does."
    return x

@triton.autotune(configs=[], key=[])
@triton.jit(do_not_specialize=["n"])
def configured(x, n):
    while True:
        pass

@tjit
def aliased(x):
    return x

class ModelNew:
    def forward(self, x):
        return x + 1
"""


def test_kernels_are_emptied_and_nothing_else() -> None:
    emptied = source_ablation.without_kernels(KERNELS.encode())
    assert emptied is not None
    functions = {
        node.name: node
        for node in ast.walk(ast.parse(emptied))
        if isinstance(node, ast.FunctionDef)
    }
    for name in ("plain", "configured", "aliased"):
        assert [type(line) for line in functions[name].body] == [ast.Pass]
        assert functions[name].decorator_list
    assert ast.unparse(functions["forward"].body[0]) == "return x + 1"
    assert [each.arg for each in functions["configured"].args.args] == ["x", "n"]


@pytest.mark.parametrize(
    "source",
    [
        b"def f(x): return x",
        b"def f(:",
        b"\xff\xfe",
        b"x = " + b"(" * 5_000,
        b"#" * (source_ablation.MAX_BYTES + 1),
    ],
)
def test_where_there_is_nothing_to_empty(source: bytes) -> None:
    assert source_ablation.without_kernels(source) is None


def test_a_copy_in_place_of_a_kernel() -> None:
    first, second, other, half = (
        torch.ones(2, 3),
        torch.zeros(6),
        torch.zeros(5),
        torch.zeros(6).half(),
    )
    copy_first((first, second, other, half, 6, None))
    assert torch.equal(second, torch.ones(6))
    assert not other.any()
    assert not half.any()


def test_a_copy_takes_bytes_for_bytes_and_may_be_the_beginning() -> None:
    first, bits, padded = torch.ones(64), torch.zeros(64, dtype=torch.int32), torch.zeros(100)
    copy_first((first, bits, padded))
    assert torch.equal(bits.view(torch.float32), first)
    assert torch.equal(padded[:64], first)
    assert not padded[64:].any()


def _launch(recorder: Recorder, run: Callable[[], Any], *tensors: torch.Tensor) -> None:
    recorder.launch(run, _described, {}, tensors)


def _described(_kernel: Any) -> Launch:
    return Launch(name="k", origin="triton")


def test_what_a_launch_wrote_is_replayed_and_nothing_else() -> None:
    recorder, target = Recorder(), torch.zeros(4)
    recorder.substitute(AblationMode.KEEP)
    _launch(recorder, lambda: target[:2].fill_(7), target)
    recorder.substitute(AblationMode.REPLAY)
    target.copy_(torch.arange(4))
    _launch(recorder, lambda: pytest.fail("ran"), target)
    assert target.tolist() == [7, 7, 2, 3]
    _launch(recorder, lambda: pytest.fail("ran"), target)  # one more than were kept
    assert target.tolist() == [7, 7, 2, 3]


def test_too_much_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_values, "KEPT_BYTES", 15)
    recorder, target = Recorder(), torch.zeros(4)
    recorder.substitute(AblationMode.KEEP)
    _launch(recorder, lambda: target.fill_(7), target)
    assert target.tolist() == [7, 7, 7, 7]
    recorder.substitute(AblationMode.REPLAY)
    target.zero_()
    _launch(recorder, lambda: pytest.fail("ran"), target)
    assert not target.any()


def test_what_a_launch_only_reads_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    source, targets = torch.ones(100), (torch.zeros(4), torch.zeros(4))
    monkeypatch.setattr(written_values, "KEPT_BYTES", source.nbytes + 3 * targets[0].nbytes)
    recorder = Recorder()
    recorder.substitute(AblationMode.KEEP)
    for target in targets:
        _launch(recorder, lambda to=target: to.fill_(7), source, source, target)  # type: ignore[misc]
        target.zero_()
    recorder.substitute(AblationMode.REPLAY)
    for target in targets:
        _launch(recorder, lambda: pytest.fail("ran"), source, source, target)
        assert target.tolist() == [7, 7, 7, 7]


def test_launches_after_too_large_a_one_are_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_values, "KEPT_BYTES", 100)
    recorder, large, small = Recorder(), torch.zeros(100), torch.zeros(4)
    recorder.substitute(AblationMode.KEEP)
    _launch(recorder, lambda: large.fill_(7), large)
    _launch(recorder, lambda: small.fill_(7), small)
    recorder.substitute(AblationMode.REPLAY)
    small.zero_()
    _launch(recorder, lambda: pytest.fail("ran"), large)
    _launch(recorder, lambda: pytest.fail("ran"), small)
    assert small.tolist() == [7, 7, 7, 7]


def test_a_recorder_counts_what_it_does_not_run() -> None:
    recorder = Recorder(ablate=AblationMode.COPY)
    source, target = torch.ones(3), torch.zeros(3)
    assert recorder.launch(lambda: pytest.fail("ran"), _described, {}, (source, target)) is None
    assert torch.equal(target, source)
    recorder.substitute(AblationMode.NOTHING)
    target.zero_()
    recorder.launch(lambda: pytest.fail("ran"), _described, {}, (source, target))
    assert not target.any()


@pytest.mark.parametrize(
    "left_out",
    [
        AblationMode.NOTHING,
        AblationMode.SILENT,
        AblationMode.COPY,
        AblationMode.REPLAY,
        AblationMode.SCALE,
    ],
)
def test_a_launch_that_is_left_out_returns_what_it_returned_before(
    left_out: AblationMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = []

    class Kernel:
        """Stands for Triton's JITFunction."""

        fn, arg_names, pre_run_hooks = staticmethod(lambda: None), (), ()

        def run(self, *, grid: Any, warmup: bool) -> object:
            ran.append(grid)
            return compiled

    monkeypatch.setattr(triton, "_signature", lambda *_: {})
    compiled, kernel, recorder = object(), Kernel(), Recorder()
    triton._record_run(Kernel, recorder)
    recorder.profiled = torch.device("cpu")
    assert kernel.run(grid=(1,), warmup=False) is compiled
    recorder.profiled = None
    recorder.substitute(left_out)
    assert kernel.run(grid=(2,), warmup=False) is compiled
    assert (len(ran), recorder.total) == (1, 2)


@pytest.mark.parametrize(
    ("line", "plain"),
    [
        ("import torch.nn.functional as F", True),
        ("from triton import language as tl", True),
        ("block = 64 if x.device.type == 'cpu' else 1024", True),
        ("self._cache = tl.load(p)", True),
        ("super().__init__()", True),
        ("import gc", False),
        ("from torch.utils import cpp_extension", False),
        ("import triton.runtime.jit", False),
        ("torch.sys.modules", False),
        ("kernel.run.__closure__", False),
        ("kernel.run = other", False),
        ("getattr(kernel, name)", False),
        ("type(kernel)", False),
        ("__import__('gc')", False),
        ("match kernel:\n    case object(__class__=c): pass", False),
        ("no python, this", False),
    ],
)
def test_what_reaches_further_than_kernels_need_is_told_from_what_does_not(
    line: str, plain: bool
) -> None:
    assert source_ablation.keeps_to_itself(line.encode()) is plain


ESCAPED = b"# coding: unicode_escape\nx = 1  # \\x0ax = 2\n"


@pytest.mark.parametrize(
    ("source", "same"),
    [
        (b"x = 1\n", True),
        (b"# coding: latin-1\nx = 1\n", True),  # the same program in both
        (b"\xef\xbb\xbf# coding: utf-8\nx = 1\n", True),
        (b"def f(:\n", True),  # Python refuses it itself
        (
            b"x = 1\n\n# coding: unicode_escape\n# \\x0ax = 2\n",
            True,
        ),  # too late: Python does not read it there
        (ESCAPED, False),
        (b"\r" + ESCAPED, False),
        (b"#!/usr/bin/python\r\n" + ESCAPED, False),
        (b"# coding: utf-7\nx = 1  # +AAo-x = 2\n", False),
    ],
)
def test_a_source_reads_as_it_runs(source: bytes, same: bool) -> None:
    assert source_ablation.reads_as_it_runs(source) is same
    try:
        names: dict[str, int] = {}
        exec(compile(source, "candidate.py", "exec"), names)
    except SyntaxError:
        return
    assert (names["x"] == 1) is same


@pytest.mark.parametrize(
    "decorator",
    [
        "[triton.jit][0]",
        "getattr(triton, 'jit')",
        "(lambda f: triton.jit(f))",
        "made",
        "functools.partial(triton.jit)",
    ],
)
def test_kernels_are_found_under_any_decorator_with_the_word(decorator: str) -> None:
    source = f"made = [triton.jit][0]\n@{decorator}\ndef kernel(x):\n    work(x)\n".encode()
    assert source_ablation.kernel_names(source) == {"kernel"}
    assert b"work" not in (source_ablation.without_kernels(source) or b"work")


def test_a_kernel_whose_decorator_is_put_together_is_not_found() -> None:
    source = b"made = getattr(triton, 'j' + 'it')\n@made\ndef kernel(x):\n    work(x)\n"
    assert source_ablation.kernel_names(source) == frozenset()
    assert source_ablation.without_kernels(source) is None


def test_several_modes_travel_as_one_number() -> None:
    modes = [AblationMode.SILENT, AblationMode.NOTHING, AblationMode.SCALE, AblationMode.HONEST]
    number = control_channel.packed_modes(modes)
    assert control_channel.unpacked_modes(number, len(modes)) == modes
    assert control_channel.unpacked_modes(AblationMode.KEEP, 1) == [AblationMode.KEEP]
    with pytest.raises(ValueError, match="15"):
        control_channel.unpacked_modes(0xF1, 2)
    assert max(AblationMode) < 1 << control_channel.MODE_BITS


def test_a_recorder_counts_launches_without_a_substitute() -> None:
    recorder = Recorder()
    for mode in (AblationMode.HONEST, AblationMode.SILENT, AblationMode.NOTHING, AblationMode.COPY):
        recorder.substitute(mode)
        recorder.count("k")
    assert (recorder.total, recorder.left_out) == (4, 2)


def test_a_number_too_long_for_decimal_digits_keeps_no_kernel() -> None:
    number = f"0x{'f' * 5_000}"
    source = f"import triton\n@triton.jit\ndef kernel(x):\n    work\nN = [{number}]\n"
    emptied = source_ablation.without_kernels(source.encode())
    assert emptied is not None
    assert b"work" not in emptied
    assert f"int({number!r}, 16)".encode() in emptied


@pytest.mark.parametrize("hides", [f"N = 0x{'f' * 5_000}", "n = " + "+".join(["x"] * 900)])
def test_trees_that_cannot_be_compared_do_not_read_as_they_run(hides):
    source = f"# coding: raw_unicode_escape\n#\\u000aimport os\n{hides}\n".encode()
    assert not source_ablation.reads_as_it_runs(source)
    assert source_ablation.reads_as_it_runs(b"# coding: utf-8\nx = 1\n")
