"""Outputs are read as a model returned them, not as they present themselves when they are read."""

from collections import OrderedDict, namedtuple
from typing import Any

import pytest
import torch

from workers.protocol import layout
from workers.shims.returned_outputs import RefusedOutputError, deliver

ONE, OTHER = torch.ones(2), torch.full((2,), 2.0)


class LateTuple(tuple[Any, ...]):
    """Other items when it is read."""

    def __iter__(self) -> Any:
        return iter((OTHER, OTHER))

    def __getitem__(self, index: Any) -> Any:
        return OTHER

    def __len__(self) -> int:
        return 2


class LateList(list[Any]):
    """Other items when it is read."""

    def __iter__(self) -> Any:
        return iter((OTHER, OTHER))

    def __len__(self) -> int:
        return 2


class LateDict(dict[str, Any]):
    """Other values when it is read."""

    def __getitem__(self, key: str) -> Any:
        return OTHER

    def keys(self) -> Any:
        return ["a", "b"]


def _delivered(value: object, spec: object) -> list[torch.Tensor]:
    views = [torch.zeros(2), torch.zeros(2)]
    deliver(value, layout.describe(spec), views)
    return views


@pytest.mark.parametrize("kind", [LateTuple, LateList, tuple, list])
def test_items_are_those_that_were_returned(kind: Any) -> None:
    assert all(torch.equal(each, ONE) for each in _delivered(kind((ONE, ONE)), (ONE, ONE)))
    with pytest.raises(RefusedOutputError, match="expected 2 outputs, got 1"):
        _delivered(kind((ONE,)), (ONE, ONE))


@pytest.mark.parametrize("kind", [LateDict, dict, OrderedDict])
def test_values_are_those_that_were_returned(kind: Any) -> None:
    assert all(
        torch.equal(each, ONE) for each in _delivered(kind(a=ONE, b=ONE), {"a": ONE, "b": ONE})
    )
    with pytest.raises(RefusedOutputError, match=r"expected a dict with keys \['a', 'b'\]"):
        _delivered(kind(a=ONE), {"a": ONE, "b": ONE})


def test_named_tuples_are_tuples() -> None:
    pair = namedtuple("pair", "a b")
    assert all(torch.equal(each, ONE) for each in _delivered(pair(ONE, ONE), (ONE, ONE)))
    values, indices = torch.max(torch.eye(2), dim=1), torch.zeros(2)
    views = [torch.zeros(2), torch.zeros(2, dtype=torch.int64)]
    deliver(values, layout.describe((indices, indices.long())), views)
    assert torch.equal(views[0], ONE)
