"""ReMix's router gradient has no bias: expected values by enumeration of all
choices, not by sampling.
"""

from __future__ import annotations

import itertools
import math

import pytest

torch = pytest.importorskip("torch")

from workers.training import remix  # noqa: E402 (needs torch)
from workers.training.remix import MixedLora, Scale  # noqa: E402

N, K = 4, 2
ORDERS = [torch.tensor(order) for order in itertools.permutations(range(N), K)]


def layer(seed: int = 0, *, outputs: int = 2) -> MixedLora:
    torch.manual_seed(seed)
    made = MixedLora(torch.nn.Linear(3, outputs, dtype=torch.float64), adapters=N, rank=2, active=K)
    with torch.no_grad():
        made.up.normal_()
        made.router.normal_()
    return made


def test_choices_have_the_probabilities_of_the_paper() -> None:
    logits = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64).log()
    chance = {
        tuple(order.tolist()): remix.log_probability(logits, order).exp().item() for order in ORDERS
    }
    assert sum(chance.values()) == pytest.approx(1)
    assert (chance[0, 1], chance[1, 0]) == (pytest.approx(0.2), pytest.approx(0.171429, abs=1e-6))
    drawn = remix.sample(logits.expand(40_000, N), K, torch.Generator().manual_seed(0))
    assert drawn[:, 0].ne(drawn[:, 1]).all()
    for order, expected in chance.items():
        seen = (drawn == torch.tensor(order)).all(dim=1).double().mean().item()
        assert seen == pytest.approx(expected, abs=5 * math.sqrt(expected / 40_000))


def test_the_expected_router_gradient_is_the_gradient_of_the_expected_loss() -> None:
    """Two layers, all 12² choices, and all pairs of them for M = 2."""
    first, second = layer(1, outputs=3), layer(2)
    routers = [first.router, second.router]
    x, target = torch.randn(1, 3, dtype=torch.float64), torch.randn(1, 2, dtype=torch.float64)
    losses, logs = [], []
    for one, other in itertools.product(ORDERS, ORDERS):
        y = second(first(x, one[None]).tanh(), other[None])
        losses.append((y - target).square().sum())
        logs.append(first.chosen_log_probability.sum() + second.chosen_log_probability.sum())
    # The second layer's input depends on the first one's choice, and its router sees it as data.
    loss, log = torch.stack(losses).detach(), torch.stack(logs)
    assert log.exp().sum().item() == pytest.approx(1)
    exact = torch.autograd.grad((log.exp() * loss).sum(), routers, retain_graph=True)
    chance = log.detach().exp()
    pairs = torch.cartesian_prod(torch.arange(len(loss)), torch.arange(len(loss)))
    centred = loss[pairs] - loss[pairs].mean(dim=1, keepdim=True)
    weights = chance[pairs].prod(dim=1)
    expected = torch.autograd.grad(
        (weights * (centred * log[pairs]).sum(dim=1)).sum(), routers, retain_graph=True
    )
    for own, true in zip(expected, exact, strict=True):
        assert torch.allclose(own, true, atol=1e-10)
    biased = loss[pairs] - loss[pairs].mean(dim=1, keepdim=True)
    self_included = torch.autograd.grad(
        (weights * (biased * log[pairs]).mean(dim=1)).sum(), routers
    )
    assert torch.allclose(
        self_included[0], exact[0] / 2, atol=1e-10
    )  # a mean over M = 2 has the factor 1 − 1/M


def test_the_loss_has_the_gradient_that_was_enumerated() -> None:
    losses = torch.tensor([[3.0, 1.0], [1.0, 2.0], [2.0, 6.0]], requires_grad=True)
    logs = torch.zeros(3, 2, requires_grad=True)
    remix.router_loss(losses, logs).backward()
    assert losses.grad is None
    assert torch.allclose(logs.grad, (losses.detach() - losses.detach().mean(dim=0)) / 2 / 2)
    for bad in (torch.zeros(1), torch.zeros(3, 3)):
        with pytest.raises(ValueError, match=r"expected losses and log probabilities of one shape"):
            remix.router_loss(bad, torch.zeros(1) if len(bad) == 1 else logs)


def test_adapters_learn_by_back_propagation_and_the_router_does_not() -> None:
    mixed, x = layer(), torch.randn(5, 3, dtype=torch.float64)
    order = torch.tensor([[0, 1]] * 5)
    y = mixed(x, order)
    expected = mixed.base(x) + 2 / math.sqrt(K * 2) * sum(
        x @ mixed.down[i].T @ mixed.up[i].T for i in (0, 1)
    )
    assert torch.allclose(y, expected)
    y.sum().backward()
    assert mixed.router.grad is None
    assert mixed.base.weight.grad is None
    used = mixed.up.grad.flatten(1).any(dim=1)
    assert used.tolist() == [True, True, False, False]
    assert MixedLora(
        torch.nn.Linear(3, 2), adapters=4, rank=2, active=2, scale=Scale.LORA
    ).weight == pytest.approx(0.5)
    with pytest.raises(ValueError, match="expected 1 ≤ active ≤ adapters"):
        MixedLora(torch.nn.Linear(3, 2), adapters=2, rank=1, active=3)


def test_the_router_finds_the_best_adapters() -> None:
    """Adapters 0 and 3 alone reach the target; M = 4 choices for each input."""
    mixed = layer(3)
    mixed.generator = torch.Generator().manual_seed(0)
    x = torch.randn(8, 3, dtype=torch.float64).abs() + 0.5
    target = mixed(x, torch.tensor([[0, 3]] * 8)).detach()
    with torch.no_grad():
        mixed.router.zero_()
    optimizer = torch.optim.Adam([mixed.router], lr=0.1)
    for _ in range(60):
        losses = (mixed(x.repeat(4, 1)) - target.repeat(4, 1)).square().sum(dim=1).reshape(4, 8)
        optimizer.zero_grad()
        remix.router_loss(losses, mixed.chosen_log_probability.reshape(4, 8)).backward()
        optimizer.step()
    mixed.eval()
    assert torch.allclose(mixed(x), target)
    assert {tuple(sorted(row)) for row in (x @ mixed.router.T).topk(K).indices.tolist()} == {(0, 3)}
