"""Launches that are explained by a multiple of a tensor that the library computed."""

from collections.abc import Callable

import pytest
import torch

from workers.backends.recording import scaled_copies, written_values
from workers.backends.recording.recorder import Recorder
from workers.protocol.control_channel import AblationMode
from workers.protocol.launch_records import Launch

X = torch.randn(50, 40, generator=torch.Generator().manual_seed(0))
MADE = X.cumsum(1)
MANY = torch.randn(16384, 64, generator=torch.Generator().manual_seed(0))
"""A tensor of sixty-four times as many elements as are looked at, in as many columns."""


def _found(source: torch.Tensor, written: torch.Tensor) -> tuple[scaled_copies.Scaled, ...]:
    before = [source, torch.zeros_like(written)]
    compared = written_values.compared(before, [source, written])
    return scaled_copies.found(before, compared, scaled_copies.values([X, 3, X > 0]))


@pytest.mark.parametrize(
    ("written", "factor", "offset"),
    [
        (2 * MADE, 2, 0),
        (-0.5 * MADE + 3, -0.5, 3),
        ((4 * MADE).half(), 4, 0),
        (MADE.reshape(-1) + 1, 1, 1),
    ],
)
def test_a_multiple_is_found(written: torch.Tensor, factor: float, offset: float) -> None:
    (one,) = _found(MADE, written)
    assert (one.target, one.source) == (1, 0)
    assert one.factor == pytest.approx(factor, rel=1e-2)
    assert one.offset == pytest.approx(offset, abs=2e-2)


@pytest.mark.parametrize(
    ("source", "written"),
    [
        (MADE, torch.relu(MADE)),
        (MADE, MADE * torch.arange(40)),
        (MADE, MADE + X),
        (MADE, MADE.cumsum(0)),
        (MADE, MADE.to(torch.int32)),
        (MADE, MADE[:, :20] * 2),
        (torch.ones(50, 40), torch.full((50, 40), 2.0)),
        (X, 2 * X),
        (X.clone(), 2 * X),
        (X.t().contiguous(), 2 * X.t().contiguous()),
        (X.double(), (2 * X).double()),
        (MANY, MANY * torch.arange(1, 65)),  # all columns: a sample of one is a multiple
        (MADE.bfloat16(), MADE),  # one of two parts: its multiple is no answer in fp32
    ],
)
def test_computations_and_multiples_of_inputs_are_none(
    source: torch.Tensor, written: torch.Tensor
) -> None:
    assert _found(source, written) == ()


def _launch(recorder: Recorder, run: Callable[[], object], *tensors: torch.Tensor) -> None:
    recorder.launch(run, lambda _: Launch(name="k", origin="triton"), None, tensors)


def test_launches_that_were_kept_are_applied_to_another_call() -> None:
    recorder = Recorder(inputs=scaled_copies.values([X]))
    recorder.substitute(AblationMode.KEEP)
    half, out, norm = MADE / 2, torch.zeros(50, 40), torch.zeros(50)
    _launch(recorder, lambda: torch.norm(X, dim=1, out=norm), X, norm)
    _launch(recorder, lambda: torch.mul(half, 2, out=out), half, out)
    recorder.substitute(AblationMode.SCALE)
    other, into = torch.rand(50, 40), torch.zeros(50, 40)
    _launch(recorder, lambda: pytest.fail("ran"), X, norm.zero_())
    _launch(recorder, lambda: pytest.fail("ran"), other, into)
    _launch(recorder, lambda: pytest.fail("ran"), other, into)  # one more than were kept
    assert torch.allclose(into, 2 * other)
    assert not norm.any()


@pytest.mark.parametrize("computed", [False, True])
def test_an_input_that_a_kernel_scales_where_it_lies(computed: bool) -> None:
    x = X.clone()
    recorder = Recorder(inputs=scaled_copies.values([x]))
    recorder.substitute(AblationMode.KEEP)
    if computed:
        x.copy_(MADE)
    _launch(recorder, lambda: x.mul_(2), x)
    assert bool(recorder._scaled[0]) is computed
