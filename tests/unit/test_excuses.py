"""Ties and roundings are right in every call; wrong indices and codes are not."""

from typing import Any

import pytest
import torch

from tests.judged import checked, is_right

CALLS = 12


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def _top(x: torch.Tensor) -> Any:
    return tuple(torch.topk(x, 8, dim=-1))


def _top_by_sort(x: torch.Tensor) -> Any:
    values, places = torch.sort(x, dim=-1, descending=True, stable=True)
    return values[..., :8], places[..., :8]


def test_places_of_equal_values_are_right_in_every_call() -> None:
    differed = 0
    for _ in range(CALLS):
        x = torch.randn(16, 2000).bfloat16()
        answer = _top_by_sort(x)
        differed += not torch.equal(answer[1], _top(x)[1])
        assert is_right(_top, [x], answer)
    assert differed, "there were ties"


def test_how_many_point_at_equal_values_is_said() -> None:
    x = torch.tensor([[1.0, 5.0, 5.0, 2.0, 5.0]])
    values, places = torch.topk(x, 3)
    moved = places.flip(-1)
    [_, found] = checked(lambda x: tuple(torch.topk(x, 3)), [x], (values, moved))
    assert found.ok == [True]
    assert found.check(0).ties == 2


def test_a_place_of_another_value_is_wrong_also_beside_ties() -> None:
    for _ in range(5):
        x = torch.randn(16, 2000).bfloat16()
        values, places = _top_by_sort(x)
        places[3, 2] = (places[3, 2] + 1) % 2000
        assert not is_right(_top, [x], (values, places))


def test_no_place_may_come_twice() -> None:
    x = torch.tensor([[5.0, 5.0, 1.0, 0.0]]).expand(4, 4).contiguous()
    values, places = torch.topk(x, 2)
    assert is_right(lambda x: tuple(torch.topk(x, 2)), [x], (values, places.flip(-1)))
    assert not is_right(lambda x: tuple(torch.topk(x, 2)), [x], (values, torch.zeros_like(places)))
    assert not is_right(lambda x: tuple(torch.topk(x, 2)), [x], (values, places + 4)), (
        "nor one outside"
    )


def _chosen_blocks(scores: torch.Tensor) -> torch.Tensor:
    """Places of the best three, -1 where a score is too low."""
    values, places = torch.topk(scores, 3)
    return torch.where(values > 0, places, -1).int()


def test_places_of_equal_values_are_right_beside_a_constant_that_is_no_place() -> None:
    x = torch.tensor([[1.0, 1.0, 0.5, -1.0, -1.0], [-2.0, 3.0, -1.0, 3.0, -1.0]])
    other = _chosen_blocks(x)[:, [1, 0, 2]]
    assert is_right(_chosen_blocks, [x], other)
    for row, column, wrong in ((0, 0, 2), (1, 2, 0), (1, 0, -1), (0, 2, 3)):
        answer = other.clone()
        answer[row, column] = wrong
        assert not is_right(_chosen_blocks, [x], answer)


def test_an_order_that_is_promised_is_kept() -> None:
    x = torch.randint(0, 9, (8, 200)).float()
    stable = torch.sort(x, stable=True).indices
    other = torch.sort(x.flip(-1), stable=True).indices.mul(-1).add(199)
    assert is_right(lambda x: x.sort().indices, [x], other)
    assert not is_right(lambda x: x.sort(stable=True).indices, [x], other)
    assert is_right(lambda x: x.sort(stable=True).indices, [x], stable)


@pytest.mark.parametrize("dim", [None, 0, 1])
def test_the_largest_of_equal_ones(dim: int | None) -> None:
    x = torch.randint(0, 5, (30, 40)).float()

    def last(x: torch.Tensor) -> torch.Tensor:
        turned = x.flatten() if dim is None else x
        along = 0 if dim is None else dim
        return turned.shape[along] - 1 - turned.flip(along).argmax(along)

    assert is_right(lambda x: x.argmax(dim), [x], last(x))
    assert not is_right(lambda x: x.argmax(dim), [x], x.argmin(dim))


def _reversed_product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    parts = [p @ q for p, q in zip(x.flip(1).split(32, 1), w.flip(0).split(32, 0), strict=True)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


ROUNDED = {
    "codes": lambda y: (y * 5).round().clamp(-127, 127).to(torch.int8),
    "signs": lambda y: y > 0,
    "whole": lambda y: (y * 30).round(),
    "floor": lambda y: (y * 30).floor().to(torch.int32),
    "nearest": lambda y: y.argmax(1),
    "chosen": lambda y: torch.where(y > 0.3, y, -y * 2),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_what_rounding_decides_is_right_in_every_call(name: str) -> None:
    def reference(x: torch.Tensor, w: torch.Tensor) -> Any:
        return ROUNDED[name](x @ w)

    differed = 0
    for _ in range(CALLS):
        x, w = torch.randn(256, 512), torch.randn(512, 128)
        answer = ROUNDED[name](_reversed_product(x, w))
        differed += not torch.equal(answer, reference(x, w))
        assert is_right(reference, [x, w], answer)
    assert differed or name in ("nearest", "signs", "chosen"), "there it is rare"


@pytest.mark.parametrize("name", ROUNDED)
def test_less_precision_is_wrong_also_where_it_is_rounded_away(name: str) -> None:
    def reference(x: torch.Tensor, w: torch.Tensor) -> Any:
        return ROUNDED[name](x @ w)

    x, w = torch.randn(512, 512), torch.randn(512, 256)
    passed = [
        is_right(reference, [x, w], ROUNDED[name]((x.half() @ w.half()).float())) for _ in range(1)
    ]
    assert not any(passed) or name == "nearest", "of 512 places half precision may get all right"


def test_a_code_that_is_off_where_nothing_is_close_is_wrong() -> None:
    def reference(x: torch.Tensor) -> torch.Tensor:
        return (x * 20).round().to(torch.int8)

    x = torch.randn(5000)
    answer = reference(x)
    assert is_right(reference, [x], answer)
    answer[17] += 1
    found = checked(reference, [x], answer)[0].check(0)
    assert (found.ok, found.differing) == (False, 1)


def test_int8_by_a_reciprocal() -> None:
    def reference(x: torch.Tensor) -> Any:
        scale = x.abs().amax(-1, keepdim=True) / 127
        return (x / scale).round().to(torch.int8), scale

    for _ in range(CALLS):
        x = torch.randn(128, 512)
        scale = x.abs().amax(-1, keepdim=True) / 127
        assert is_right(reference, [x], ((x * (1 / scale)).round().to(torch.int8), scale))


def test_the_expert_that_a_token_goes_to() -> None:
    torch.manual_seed(3)
    experts = torch.randn(16, 64, 64)

    def reference(x: torch.Tensor, router: torch.Tensor) -> torch.Tensor:
        chosen = (x @ router).argmax(-1)
        return torch.einsum("td,tde->te", x, experts.to(x.dtype)[chosen])

    flipped = 0
    for _ in range(4):
        x, router = torch.randn(64, 64), torch.randn(64, 16)
        first, second = router[:, (x[0] @ router).topk(2).indices].T
        apart = first - second
        x[0] -= apart * (x[0] @ apart) / (apart @ apart)
        logits = _reversed_product(x, router)
        answer = torch.einsum("td,tde->te", x, experts[logits.argmax(-1)])
        flipped += not torch.allclose(answer, reference(x, router), atol=1e-3)
        assert is_right(reference, [x, router], answer)
        wrong = torch.einsum("td,tde->te", x, experts[(logits.argmax(-1) + 1) % 16])
        assert not is_right(reference, [x, router], wrong)
    assert flipped
