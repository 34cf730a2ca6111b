"""Launches of which each result follows from a few elements of the library's tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
import torch

from workers.backends.recording import element_locality
from workers.backends.recording.recorder import Recorder
from workers.backends.recording.written_values import Written
from workers.protocol.control_channel import AblationMode
from workers.protocol.launch_records import Launch

ROWS, COLUMNS = 48, 64
BIAS, WEIGHTS = torch.randn(COLUMNS + 1, COLUMNS, generator=torch.Generator().manual_seed(1)).split(
    [1, COLUMNS]
)

Kernel = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]
"""Function that reads the library's tensor and the input, and writes into the last tensor."""


def _largest_of_two(x: torch.Tensor) -> torch.Tensor:
    return x.unflatten(1, (-1, 2)).amax(-1)


def _sums_of(count: int, x: torch.Tensor) -> torch.Tensor:
    return x.unfold(1, count, 1).sum(-1)


def _counted(index: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return x + index.float().mean(1, keepdim=True)


def _within(ends: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    assert bool((ends.diff() >= 0).all()), "offsets have changed"
    return x.where(torch.arange(ROWS * COLUMNS).view(x.shape) < ends[:, None], 0.0)


def _take_larger(y: torch.Tensor, of: list[int]) -> None:
    y.copy_(torch.maximum(y, y[:, of]))


def _launch(recorder: Recorder, run: Callable[[], object], *tensors: torch.Tensor) -> None:
    recorder.launch(run, lambda _: Launch(name="k", origin="triton"), None, tensors)


def _is_mapped(library: Callable[[torch.Tensor], torch.Tensor], kernel: Kernel) -> bool:
    torch.manual_seed(0)
    recorder, x, out = Recorder(), torch.randn(ROWS, COLUMNS), torch.zeros(ROWS, COLUMNS)
    recorder.substitute(AblationMode.NOTE)
    recorder.note_inputs([x])
    with recorder.watching():
        given = library(x)
        before = given.clone()
        _launch(recorder, functools.partial(kernel, given, x, out), given, x, out)
    assert torch.equal(given, before)
    right = torch.zeros(ROWS, COLUMNS)
    kernel(given, x, right)
    assert torch.equal(out, right)
    return recorder.mapped > 0


@pytest.mark.parametrize(
    ("library", "kernel", "expected"),
    [
        (lambda x: x.flip(0).log_softmax(1), lambda y, _, out: out.copy_(y.flip(0).exp()), True),
        (
            lambda x: x.T.contiguous().log_softmax(0),
            lambda y, _, out: out.copy_(y.T.exp()),
            True,
        ),
        (
            lambda x: torch.cat((x, x), dim=1).cumsum(1),
            lambda y, _, out: out.copy_(y[:, COLUMNS:].square()),
            True,
        ),
        (lambda x: x.cumsum(1), lambda y, _, out: out[:, :40].copy_(y[:, :40].exp()), True),
        (lambda x: x.cumsum(1), lambda y, _, out: out.copy_(y.softmax(1)), False),
        (lambda x: x.cumsum(1), lambda y, _, out: out.copy_((y + BIAS.roll(1)).cumsum(1)), False),
        (lambda x: x.cumsum(1).flip(0), lambda y, x, out: out.copy_((y.flip(0) - x).exp()), True),
        (lambda x: x.cumsum(1), lambda y, x, out: out.copy_(y.flip(0) - x.mean(1)[:, None]), False),
        (lambda x: x.cumsum(1) + BIAS, lambda y, _, out: out.copy_((y - BIAS).flip(0)), True),
        (lambda x: x.mean(1), lambda y, x, out: out.copy_((x - y[:, None]).exp()), False),
        (lambda x: x.cumsum(1), lambda y, _, out: out[:, 0].copy_(y.sum(1)), False),
        (lambda x: x.cumsum(1), lambda y, _, out: out[:, :32].copy_(_largest_of_two(y)), True),
        (lambda x: x.cumsum(1), lambda y, _, out: out[:, :32].copy_(y[:, ::2] * y[:, 1::2]), True),
        (lambda x: x.cumsum(1), lambda y, _, out: out[:, 1:].copy_(y.diff()), True),
        (lambda x: x.cumsum(1), lambda y, _, out: out[:, :49].copy_(_sums_of(16, y)), False),
        (
            lambda x: torch.stack((torch.addcmul(x, x, x), torch.addcmul(-x, x, x))),
            lambda y, _, out: out.copy_(y.mean(0)),
            True,
        ),
        (
            lambda x: torch.view_as_real(torch.complex(torch.addcmul(x, x, x), -x)),
            lambda y, _, out: out.copy_(y.sum(-1)),
            True,
        ),
        (lambda x: x.argsort(1), lambda y, x, out: out.copy_(x.gather(1, y)), True),
        (lambda x: x.argsort(1), lambda y, x, out: out.copy_(_counted(y, x)), False),
        (lambda x: x[:, :ROWS].argmax(1), lambda y, x, out: out.copy_(x[y]), True),
        (lambda x: x[0].argsort(), lambda y, x, out: out.copy_(x[:, y] * x.mean(0)), False),
        (lambda x: x.gt(0).sum(1).cumsum(0), lambda y, x, out: out.copy_(_within(y, x)), False),
        (
            lambda x: (x * 9).to(torch.int8),
            lambda y, _, out: out.copy_(y.float() @ WEIGHTS),
            False,
        ),
        (lambda x: x.T.contiguous(), lambda y, _, out: out.copy_(y.T.exp()), False),
        (lambda x: 0.5 * x, lambda y, x, out: out.copy_((y.flip(0) * x).exp()), False),
        (lambda x: x - x.max(), lambda y, x, out: out.copy_((y.flip(0) * x).exp()), True),
        (lambda x: x * x.flip(1), lambda y, x, out: out.copy_((y.flip(0) - x).exp()), True),
    ],
)
def test_functions_of_a_few_elements(
    library: Callable[[torch.Tensor], torch.Tensor], kernel: Kernel, expected: bool
) -> None:
    assert _is_mapped(library, kernel) is expected


def test_what_a_kernel_has_combined_is_not_the_librarys() -> None:
    torch.manual_seed(0)
    recorder, x = Recorder(), torch.randn(ROWS, COLUMNS)
    recorder.substitute(AblationMode.NOTE)
    recorder.note_inputs([x])
    with recorder.watching():
        y = x.cumsum(1)
        for width in (1, 2):  # the first steps of a sorting network
            swapped = (torch.arange(COLUMNS) ^ width).tolist()
            _launch(recorder, functools.partial(_take_larger, y, swapped), y)
    assert recorder._mapped == [True, False]


def test_a_launch_that_hardly_matters_is_replayed_otherwise() -> None:
    recorder, x = Recorder(), torch.randn(ROWS, COLUMNS)
    ones, table = torch.zeros(ROWS), torch.zeros(ROWS)
    recorder.substitute(AblationMode.NOTE)
    with recorder.watching():
        _launch(recorder, lambda: ones.fill_(1), x, ones)
        _launch(recorder, lambda: table.copy_(x[:, 0]), x, table)
    recorder.substitute(AblationMode.MAP)
    ones.zero_()
    table.zero_()
    with recorder.watching():
        _launch(recorder, lambda: pytest.fail("ran"), x, ones)
        _launch(recorder, lambda: pytest.fail("ran"), x, table)
    assert bool((ones == 1).all())
    assert torch.equal(table, x[:, 0].roll(1 + ROWS // 3))


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.uint16, torch.uint8]
)
@pytest.mark.parametrize("count", [64, 1 << 12, 1 << 16])
def test_values_are_exchanged_without_a_permutation_of_all(
    dtype: torch.dtype, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    monkeypatch.delattr(torch, "randperm")  # 8 million on the host take seconds
    values = torch.randint(0, 250, (1 << 8, 1 << 8)).to(dtype)
    found = element_locality._exchanged(values, count)
    written = Written(True, torch.ones_like(values, dtype=torch.bool), values)
    changed = element_locality._changes(written, found)
    assert (found.dtype, found.shape) == (dtype, values.shape)
    # Many numbers of eight bits are as good as equal.
    assert (0.4 if dtype is torch.float8_e4m3fn else 0.8) * count < changed <= 1.1 * count
    assert torch.equal(found.float().sort().values.sum(), values.float().sort().values.sum())


def test_errors_of_a_rounding_and_equal_holes_are_no_changes() -> None:
    right = torch.tensor([1.0, -2.0, torch.nan, torch.inf, 0.0, 3.0])
    now = torch.tensor([1.0 + 2**-22, -2.0, torch.nan, torch.inf, -0.0, 3.1])
    for where, count in ((torch.ones(6), 1), (torch.zeros(6), 0)):
        assert element_locality._changes(Written(True, where.bool(), right), now) == count


def test_codes_of_a_byte_are_no_offsets() -> None:
    assert not element_locality._are_offsets(torch.tensor([3, 1, 2], dtype=torch.uint8))
    assert element_locality._are_offsets(torch.tensor([1, 2, 2], dtype=torch.uint8))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int16, torch.uint32, torch.uint8])
def test_lengths_of_rows_are_exchanged_within_the_rows(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    lengths = torch.randint(0, 250, (ROWS,)).to(dtype)
    seen: list[torch.Tensor] = []
    launch = element_locality.Launch(
        lambda: seen.append(lengths.clone()),
        [lengths],
        [lengths.clone()],
        [Written(False, torch.zeros(ROWS, dtype=torch.bool), lengths.clone())],
    )
    launch.changes({0: lengths}, ROWS)
    assert bool((seen[0].long() <= launch.before[0].long()).all())
    assert int((seen[0].long() < launch.before[0].long()).sum()) > ROWS // 4


@pytest.mark.parametrize("other", [lambda y: y, lambda y: y[:, ::2], lambda y: y.view(-1)])
def test_a_tensor_that_is_given_twice_is_exchanged(
    other: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    torch.manual_seed(0)
    recorder, x, out = Recorder(), torch.randn(ROWS, COLUMNS), torch.zeros(ROWS, COLUMNS)
    recorder.substitute(AblationMode.NOTE)
    recorder.note_inputs([x])
    with recorder.watching():
        y = x.cumsum(1)
        _launch(recorder, lambda: out.copy_(y.softmax(1)), y, other(y), out)
    assert recorder._mapped == [False]


def _prepared(
    prepare: Kernel, library: Callable[[torch.Tensor], torch.Tensor], kernels: int = 1
) -> int:
    """Summary of a call in which `kernels` launches, each of the one before, come before the
    library.
    """
    torch.manual_seed(0)
    recorder, x = Recorder(), torch.randn(ROWS, COLUMNS)
    recorder.substitute(AblationMode.NOTE)
    recorder.note_inputs([x])
    with recorder.watching():
        y = x
        for _ in range(kernels):
            y, before = torch.zeros(ROWS, COLUMNS), y
            _launch(recorder, functools.partial(prepare, before, x, y), before, x, y)
        library(y)
    return recorder.mapped


def test_what_the_library_computes_of_prepared_inputs_is_its_own() -> None:
    mapped = _prepared(lambda y, _, out: out.copy_(y.flip(0).exp()), lambda y: y.log_softmax(1))
    assert mapped // 4 > 0
    assert mapped & 3 == 2
    assert not _prepared(lambda y, _, out: out.copy_(y.cumsum(1)), lambda y: y.log_softmax(1))
    assert not _prepared(lambda y, _, out: out.copy_(y.exp()), torch.clone)


def test_launches_one_behind_the_other_prepare_nothing() -> None:
    swapped = (torch.arange(COLUMNS) ^ 1).tolist()

    def sort(y: torch.Tensor, _: torch.Tensor, out: torch.Tensor) -> None:
        out.copy_(torch.maximum(y, y[:, swapped]) + 0.1 * y)

    assert _prepared(sort, lambda y: y.log_softmax(1))
    assert not _prepared(sort, lambda y: y.log_softmax(1), kernels=2)
