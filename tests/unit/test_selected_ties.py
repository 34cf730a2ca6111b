"""Equal inputs of which an operation selects some, and cuts of cumulative sums: an answer with
the others is right, in the outputs that follow from the selection, too.
"""

import time

import torch
from torch import nn

from workers.shims.problem.answers import equivalent_answers, true_answer
from workers.shims.problem.answers.true_answer import Truth

ROWS, EXPERTS = 400, 24


class Router(nn.Module):
    """Weights of the experts that each token is sent to, with a scale for each expert."""

    def forward(self, scores: torch.Tensor, scales: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values, chosen = scores.topk(3, -1)
        return torch.softmax(values, -1) * scales[chosen], chosen.int()


def _looked_at(
    model: nn.Module, inputs: list[torch.Tensor], *got: torch.Tensor
) -> list[torch.Tensor]:
    """The answer, with the expected elements in place of wrong ones."""
    kept = [each.clone() for each in got]
    twin = true_answer.twin(model, Truth.FP64)
    equivalent_answers.find_equivalent(twin, Truth.FP64, inputs, kept, time.process_time() + 60.0)
    return kept


def _last_first(scores: torch.Tensor, scales: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The router's answer with the last of equal scores."""
    values, chosen = scores.flip(-1).topk(3, -1)
    chosen = EXPERTS - 1 - chosen
    return torch.softmax(values, -1) * scales[chosen], chosen.int()


def test_outputs_that_follow_from_another_of_equal_inputs_are_right() -> None:
    torch.manual_seed(1)
    scores, scales = torch.randn(ROWS, EXPERTS), 0.5 + torch.rand(EXPERTS)
    scores[:4, 3] = scores[:4, 17] = 5.0
    scores[4:6, 3] = scores[4:6, 17] = scores[4:6].sort(-1).values[:, -3]
    scores[6:8, [5, 9]] = 0.0  # the others are below zero
    scores[6:8] = torch.where(scores[6:8] == 0.0, scores[6:8], -scores[6:8].abs())
    weights, chosen = _last_first(scores, scales)
    expected, order = Router()(scores, scales)
    assert not torch.equal(order, chosen)
    assert not torch.allclose(weights, expected)
    kept = _looked_at(Router(), [scores, scales], weights, chosen)
    torch.testing.assert_close(kept[0], weights)
    assert torch.equal(kept[1], chosen)


def test_another_expert_with_a_lower_score_is_wrong() -> None:
    torch.manual_seed(1)
    scores, scales = torch.randn(ROWS, EXPERTS), 0.5 + torch.rand(EXPERTS)
    weights, chosen = Router()(scores, scales)
    fourth = scores[:4].topk(4, -1).indices[:, 3]
    weights[:4, 2] *= scales[fourth] / scales[chosen[:4, 2].long()]
    kept = _looked_at(Router(), [scores, scales], weights, chosen)
    torch.testing.assert_close(kept[0].float(), Router()(scores, scales)[0])


class Nucleus(nn.Module):
    """Probabilities of the likeliest classes that reach a share together."""

    def forward(self, p: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
        ordered, at = p.sort(-1, descending=True)
        kept = ordered.cumsum(-1) - ordered < share[:, None]
        q = p * torch.zeros_like(kept).scatter(1, at, kept)
        return q / q.sum(-1, keepdim=True)


def test_a_cut_that_another_order_of_a_cumulative_sum_moves_is_right() -> None:
    torch.manual_seed(2)
    p = torch.softmax(torch.randn(16, 16384), -1)
    sums = p.double().sort(-1, descending=True).values.cumsum(-1)
    share = (sums[:, 9000] * (1 + 3e-6)).float()
    moved = Nucleus()(p, (share * (1 - 6e-6)).float())
    assert ((moved == 0) != (Nucleus()(p, share) == 0)).any(-1).all()
    [kept] = _looked_at(Nucleus(), [p, share], moved)
    torch.testing.assert_close(kept, moved, rtol=1e-3, atol=0.0)
    far = Nucleus()(p, share * 0.99)
    [kept] = _looked_at(Nucleus(), [p, share], far)
    assert ((kept == 0) != (far == 0)).any()


class Largest(nn.Module):
    """Place of the largest of each row, of the rows themselves or of their products with a square
    matrix.
    """

    def __init__(self, *, multiplies: bool = False) -> None:
        super().__init__()
        self.multiplies = multiplies

    def forward(self, x: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
        return torch.argmax(x @ factors if self.multiplies else x, dim=1)


def test_any_of_equal_inputs_is_the_largest() -> None:
    torch.manual_seed(3)
    x, factors = torch.randn(ROWS, EXPERTS), torch.randn(EXPERTS, EXPERTS)
    x[:4, 3] = x[:4, 17] = 5.0
    last = Largest()(x, factors)
    assert (last[:4] == 3).all()
    last[:4] = 17
    [kept] = _looked_at(Largest(), [x, factors], last)
    assert (kept[:4] == 17).all()
    last[:4] = 16
    [kept] = _looked_at(Largest(), [x, factors], last)
    assert (kept[:4] == 3).all()


def test_another_of_the_largest_that_rounding_makes_equal_is_right() -> None:
    torch.manual_seed(3)
    x, factors = torch.randn(ROWS, EXPERTS), torch.randn(EXPERTS, EXPERTS)
    model = Largest(multiplies=True)
    at = model(x, factors)[0]
    factors[:, (at + 1) % EXPERTS] = factors[:, at]
    got = model(x, factors)
    first, second = sorted((int(at), int((at + 1) % EXPERTS)))
    for other in (first, second):
        got[0] = other
        [kept] = _looked_at(model, [x, factors], got)
        assert kept[0] == other
