"""The truth of a reference: fp64 also where its code asks for less, and no
randomness where sums have no order.
"""

from typing import Any

import pytest
import torch
from torch import nn

from workers.protocol import layout
from workers.protocol.roundoff import errors
from workers.referee.comparison import correctness
from workers.shims.problem.answers import best_truth, rounding, true_answer
from workers.shims.problem.answers.true_answer import Truth


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


class Lstm(nn.Module):
    """KernelBench level 3 style: states made inside, in fp32."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(10, 20, 3, batch_first=True)
        self.last = nn.Linear(20, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = torch.zeros(3, x.size(0), 20), torch.zeros(3, x.size(0), 20, dtype=torch.float32)
        return self.last(self.lstm(x, state)[0][:, -1])


class Casts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x.to(torch.float32)).float().sum((2, 3), dtype=torch.float32)


class Product(nn.Module):
    """bf16 operands, a rounding in between, fp32 result."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        assert a.dtype == b.dtype == torch.bfloat16
        return (a @ b).to(torch.float32)


class Recurrence(nn.Module):
    """Casts to fp32 itself, keeps a state of its own, and writes into its own tensors."""

    def forward(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        state = torch.zeros(q.shape[0], 16, 16, dtype=torch.float32)
        out = torch.empty_like(q)
        for t in range(q.shape[1]):
            state = state * 0.9 + k.float()[:, t, :, None] * q.float()[:, t, None, :]
            out[:, t] = (state @ q.float()[:, t, :, None])[..., 0].to(q.dtype)
        return out


class Bits(nn.Module):
    """A model without a wider form."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.view(torch.int32) & ~0xFFFF).view(torch.float32)


def _bfloat(*shape: int) -> torch.Tensor:
    return torch.randn(*shape).bfloat16()


def _answers(model: nn.Module, inputs: list[Any]) -> tuple[torch.Tensor, torch.Tensor, Truth]:
    """A model's own answer, the true one, and how that was found."""
    model.eval()
    with torch.no_grad():
        own = model(*inputs)
    best = best_truth.find(model, inputs, own)
    if best is Truth.OWN:
        return own, own, best
    return (
        own,
        true_answer.call(true_answer.twin(model, best), true_answer.widened(inputs, best), best),
        best,
    )


@pytest.mark.parametrize(
    ("model", "inputs", "off"),
    [
        (Lstm(), [torch.randn(4, 7, 10)], 1e-6),
        (Casts(), [torch.randn(2, 3, 9, 9)], 1e-6),
        (Product(), [_bfloat(64, 256), _bfloat(256, 32)], 4e-3),
        (Recurrence(), [_bfloat(4, 9, 16), _bfloat(4, 9, 16)], 4e-3),
    ],
    ids=["states", "casts", "product", "recurrence"],
)
def test_the_truth_is_fp64_also_where_the_code_casts(
    model: nn.Module, inputs: list[Any], off: float
) -> None:
    own, expected, best = _answers(model, inputs)
    assert (best, expected.dtype) == (Truth.WIDENED, torch.float64)
    assert 1e-9 < errors(own, expected)[0] < off, "its own error is not 0"


class Steps(nn.Module):
    """Writes into several tensors of its own at once, as an optimiser does; they are no buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.states = [torch.zeros(16), torch.zeros(16)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch._foreach_zero_(self.states)
        torch._foreach_add_(self.states, [x, 2 * x])
        return self.states[0] + self.states[1].float()


def test_what_is_written_into_a_list_of_tensors_is_kept() -> None:
    model, x = Steps(), torch.randn(16)
    twin = true_answer.twin(model, Truth.WIDENED)
    own = model(x)
    found = true_answer.call(twin, true_answer.widened([x], Truth.WIDENED), Truth.WIDENED)
    torch.testing.assert_close(found.float(), own)


def test_a_product_that_is_not_rounded_in_between_is_more_exact_than_the_reference() -> None:
    a, b = _bfloat(64, 256), _bfloat(256, 32)
    own, expected, _ = _answers(Product(), [a, b])
    got = a.float() @ b.float()
    poison = torch.zeros(got.numel())

    def is_right(got: torch.Tensor, expected: torch.Tensor) -> bool:
        flat = [each.reshape(1, -1) for each in (got, expected, own)]
        return correctness.compare(flat[0], flat[1], flat[2], poison, 0, tuple(got.shape)).ok[0]

    assert is_right(got, expected)
    assert not is_right(got, own.double()), "held to the reference's own answer it was refused"
    eighth = (
        (a.to(torch.float8_e4m3fn).float() @ b.to(torch.float8_e4m3fn).float()).bfloat16().float()
    )
    assert not is_right(eighth, expected)


def test_a_plain_model_needs_no_lifting() -> None:
    _, expected, best = _answers(nn.Linear(8, 8), [torch.randn(4, 8)])
    assert (best, expected.dtype) == (Truth.FP64, torch.float64)


def test_bits_have_no_wider_form() -> None:
    assert _answers(Bits(), [torch.rand(64) + 1])[2] is Truth.OWN


def test_an_answer_of_another_kind_is_no_truth() -> None:
    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if x.dtype == torch.float32 else torch.zeros_like(x)

    own, expected, best = _answers(Branches(), [torch.randn(64)])
    assert best is Truth.WIDENED, "it sees the type that it expects"
    assert errors(own, expected)[0] < 1e-6


def _sums_in_any_order(x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(len(x))
    for part in x[:, torch.randperm(x.shape[1])].split(50, 1):
        total = total + part.sum(1)
    return total


def test_sums_in_any_order_are_not_random_and_their_spread_is_measured() -> None:
    x = torch.randn(16, 5000) * 1000
    first, again = _sums_in_any_order(x), _sums_in_any_order(x)
    assert not layout.same(first, again)
    assert rounding.differs_by_rounding(first, again)
    [(l2, largest)] = rounding.spread(first, lambda: _sums_in_any_order(x))
    assert 1e-9 < l2 < 1e-4
    assert l2 < largest


def test_dropout_is_random() -> None:
    x = torch.randn(16, 500)
    assert not rounding.differs_by_rounding(nn.functional.dropout(x), nn.functional.dropout(x))
    assert not rounding.differs_by_rounding(x, x + 1e-3 * torch.randn_like(x))


def test_an_error_within_the_reference_s_own_spread_is_right() -> None:
    exact = torch.randn(1, 4096, dtype=torch.float64)
    got = (exact * (1 + 3e-5)).float()
    poison = torch.zeros(4096)
    strict = correctness.compare(got, exact, exact.float(), poison, 0, ())
    spread = correctness.compare(
        got, exact, exact.float(), poison, 0, (), correctness.Rule(spread=((1e-5, 1e-4),))
    )
    assert (strict.ok, spread.ok) == ([False], [True])


def test_shaking_moves_a_sum_that_cancels_by_what_its_terms_may_be_off() -> None:
    x = torch.cat([torch.randn(1, 512), torch.zeros(1, 512)], 1)
    x[:, 512:] = -x[:, :512]
    model = nn.Linear(1024, 1, bias=False)
    nn.init.ones_(model.weight)
    twin = true_answer.twin(model, Truth.FP64)
    moved = rounding.perturbed(twin, true_answer.widened([x]), 1, 1.0)
    assert 1e-8 < moved.abs().item() < 1e-4


def test_what_is_exact_is_not_shaken() -> None:
    class Counts(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * 2 + 1 > 5).to(torch.int64)

    x = torch.arange(1000.0) % 7
    model = Counts()
    moved = rounding.perturbed(
        true_answer.twin(model, Truth.FP64), true_answer.widened([x]), 1, 16.0
    )
    assert torch.equal(moved, model(x))


def test_a_reference_that_asks_for_nothing_narrow_is_computed_in_fp64_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two answers of a transposed convolution on a GPU differ by the order of their
    sums: nothing is to be compared.
    """
    tried = []

    def noting(truth: Truth) -> Any:
        tried.append(truth)
        return limit(truth)

    limit = best_truth._limit
    monkeypatch.setattr(best_truth, "_limit", noting)
    model = nn.Sequential(
        nn.ConvTranspose3d(2, 3, 3), nn.BatchNorm3d(3), nn.Dropout(0.0), nn.GELU()
    )
    inputs = [torch.randn(2, 2, 4, 4, 4)]
    assert best_truth.find(model, inputs, model(*inputs)) is Truth.FP64
    assert tried == [Truth.FP64]
    casts = Casts()
    images = [torch.randn(2, 3, 8, 8)]
    assert best_truth.find(casts, images, casts(*images)) is Truth.WIDENED
    assert tried == [Truth.FP64, Truth.FP64, Truth.WIDENED]


class SingleElements(nn.Module):
    """Normalises groups of one element, so that nothing but rounding errors is left."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(32, 64), nn.GroupNorm(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.norm(self.linear(x))
        return found


def test_the_truth_of_an_answer_of_rounding_errors_is_fp64() -> None:
    own, expected, best = _answers(SingleElements(), [torch.rand(3, 32)])
    assert best is Truth.FP64
    assert errors(own, expected)[0] > best_truth.NOTHING
    flat = [each.reshape(1, -1) for each in (torch.zeros_like(own), expected, own)]
    poison = torch.zeros(own.numel())
    found = correctness.compare(flat[0], flat[1], flat[2], poison, 0, tuple(own.shape))
    assert found.ok[0], "another kernel's noise is as right"


class NothingInDouble(nn.Module):
    """Fills its answer for the types that its authors thought of."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = torch.zeros_like(x)
        if x.element_size() == 4:
            out.copy_(x)
        return out


def test_an_answer_that_rounding_does_not_change_is_no_noise() -> None:
    assert _answers(NothingInDouble(), [torch.rand(3, 32)])[2] is Truth.OWN
