"""Values that an operation of torch rounds to codes: rounding decides between two
codes, and between no others.
"""

import time

import torch
from torch import nn

from tests import judged
from workers.shims.problem.answers import best_truth, equivalent_answers, rounding, true_answer
from workers.shims.problem.answers.true_answer import Truth

ROWS, COLUMNS = 8, 4000


class Quantised(nn.Module):
    """A row's values rounded to multiples of its scale."""

    def forward(self, x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor) -> torch.Tensor:
        return torch.fake_quantize_per_channel_affine(x, scale, zero, 0, -128, 127)


def _inputs() -> list[torch.Tensor]:
    """Some values lie half-way between two codes, up to a rounding."""
    torch.manual_seed(2)
    scale = torch.rand(ROWS) * 0.1 + 0.01
    x = torch.randn(ROWS, COLUMNS)
    halves = torch.randint(-10, 10, (ROWS, 50)) + 0.5
    x[:, :50] = halves * scale[:, None] * (1 + torch.randn(ROWS, 50) * 6e-8)
    return [x, scale, torch.zeros(ROWS, dtype=torch.int32)]


def _divided(x: torch.Tensor, scale: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    """The same by a division, where torch multiplies by a reciprocal."""
    return (x / scale[:, None]).round().clamp(-128, 127) * scale[:, None]


def test_codes_that_rounding_decides_are_right_and_other_codes_are_not() -> None:
    model, inputs = Quantised(), _inputs()
    best = best_truth.find(model, inputs, model(*inputs))
    assert best is Truth.SINGLE
    divided = _divided(*inputs)
    differs = (divided - model(*inputs)).abs() > 1e-6
    assert differs.any()
    wrong = divided.clone()
    wrong[0, 1000] += 2 * inputs[1][0]
    kept = wrong.clone()
    [leaf] = equivalent_answers.find_equivalent(
        true_answer.twin(model, best), best, inputs, [kept], time.process_time() + 60.0
    )
    assert leaf.close >= int(differs.sum())
    assert torch.equal(kept[differs], divided[differs])
    assert kept[0, 1000] != wrong[0, 1000]


class Shifted(nn.Module):
    """Codes of values as they are, buckets between edges near zero, and codes that
    whole numbers are compared with.
    """

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        codes = torch.clamp(torch.round(x * 2) + 8, 0, 15)
        edges = torch.linspace(-3, 3, 33, device=x.device)
        return codes.to(torch.uint8), torch.bucketize(x, edges), codes > 8


def test_a_decision_by_a_shifted_value_is_right_next_to_its_boundary_alone() -> None:
    torch.manual_seed(3)
    x = torch.randn(1, 8_000)
    x[0, :40] = (torch.randint(-8, 8, (40,)) + 0.5) / 2  # half-way
    x[0, 40:80] = torch.linspace(-3, 3, 33)[16] + 3e-8 * torch.randn(40)  # at the edge 0
    model = Shifted()
    best = best_truth.find(model, [x], model(x))
    codes, buckets, above = model(x)
    up = torch.clamp(torch.floor(x * 2 + 8.5), 0, 15).to(torch.uint8)
    places = torch.ceil((x + 3.0) / 0.1875).clamp(0, 33).long()
    assert (up != codes).any()
    assert (places != buckets).any()
    got = [up.clone(), places.clone(), above.clone()]
    beyond = 4_000 + int(
        (x[0, 4_000:] * 2 - (x[0, 4_000:] * 2).round()).abs().argmin()
    )  # far from half-way
    got[0][0, beyond] += 1
    got[2] = codes >= 8  # another decision about whole numbers
    kept = [each.clone() for each in got]
    equivalent_answers.find_equivalent(
        true_answer.twin(model, best), best, [x], kept, time.process_time() + 60.0
    )
    assert torch.equal(kept[1], places)
    assert kept[0][0, beyond] == codes[0, beyond]
    kept[0][0, beyond] = up[0, beyond]
    assert torch.equal(kept[0], up)
    assert torch.equal(kept[2][0, 80:], above[0, 80:])


def test_a_quotient_that_is_exact_by_chance_is_decided_by_rounding() -> None:
    """The largest value over its own 127th is 127; by the reciprocal it may be less, and is cut
    off to 126."""

    class Codes(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x / (x.abs().amax() / 127)).to(torch.int8)

    x = torch.tensor([[1.0, -0.25, 3.890629768371582, 0.5]])  # a 127th of it is exact in fp32
    scale = x.abs().amax() / 127
    codes = (x * (1 / scale)).to(torch.int8)
    assert codes[0, 2] == 126
    assert Codes()(x)[0, 2] == 127
    assert judged.is_right(Codes(), [x], codes)
    codes[0, 0] += 1
    assert not judged.is_right(Codes(), [x], codes)


def test_a_quotient_without_a_value_stays_as_it_is() -> None:
    inputs = true_answer.widened([torch.tensor([1.0, -1.0, 0.0]), torch.zeros(3)], Truth.FP64)
    found = rounding.perturbed(lambda a, b: a / b, list(inputs), 1, 8.0)
    assert found[0] == torch.inf
    assert found[1] == -torch.inf
    assert found[2].isnan()


class SignOfASum(nn.Module):
    """Values with a faint one beside them, of which a sum near zero decides the sign."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1e-4 * torch.sign(x.sum(dim=1, keepdim=True))


def test_an_element_that_rounding_moves_by_twice_its_limit_is_right_on_either_side() -> None:
    torch.manual_seed(4)
    x = torch.randn(64, 256)
    x[5] -= x[5].double().mean().float()
    x[5, 0] -= x[5].double().sum().float()
    model = SignOfASum()
    best = best_truth.find(model, [x], model(x))
    expected = model(x)
    given = expected.clone()
    given[5] = 2 * x[5] - expected[5]
    given[6, 1] += 3e-4
    kept = given.clone()
    equivalent_answers.find_equivalent(
        true_answer.twin(model, best), best, [x], [kept], time.process_time() + 60.0
    )
    assert torch.equal(kept[5], given[5])
    assert kept[6, 1] != given[6, 1]
