"""Detection of writes into memory that existed before."""

import functools
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch

from workers.shims.problem.observers import write_tracking

OWN = torch.zeros(8)
TABLE = torch.zeros(8)


@functools.cache
def kept() -> torch.Tensor:
    return torch.empty(8)


def into_its_own() -> None:
    x = torch.randn(8)
    x.mul_(2).clamp_(min=0)
    x.view(2, 4)[0].add_(1)
    torch.neg(x, out=torch.empty(8))
    torch._foreach_add_([x, x.clone()], 1.0)
    OWN.view(2, 4).copy_(x.view(2, 4) + TABLE.view(2, 4))


def into_a_cache() -> None:
    torch.neg(torch.randn(8), out=kept())


def into_a_view_of_a_global() -> None:
    TABLE.view(2, 4)[1].add_(1)


def into_several() -> None:
    torch._foreach_add_([torch.randn(8), TABLE], 1.0)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (into_its_own, False),
        (into_a_cache, True),
        (into_a_view_of_a_global, True),
        (into_several, True),
    ],
)
def test_what_is_written_that_was_not_made(call: Callable[[], None], expected: bool) -> None:
    kept()
    assert write_tracking.writes_elsewhere(call, OWN) is expected


def test_a_norm_that_counts_is_seen() -> None:
    norm = torch.nn.BatchNorm1d(4)
    assert write_tracking.writes_elsewhere(lambda: norm(torch.randn(8, 4)), OWN)
    norm.eval()
    with torch.no_grad():
        assert not write_tracking.writes_elsewhere(lambda: norm(torch.randn(8, 4)), OWN)


def test_what_cannot_be_watched_is_made_all_the_same() -> None:
    made = []

    def call() -> None:
        made.append(1)
        if len(made) == 1:
            raise RuntimeError("no mode, please")

    assert write_tracking.writes_elsewhere(call, OWN)
    assert len(made) == 2
    with pytest.raises(ZeroDivisionError):
        write_tracking.writes_elsewhere(lambda: 1 / 0, OWN)


def test_watching_imports_no_compiler() -> None:
    """It would take a second, in every process of a reference."""
    code = (
        "import sys, torch; from workers.shims.problem.observers import write_tracking; "
        "write_tracking.writes_elsewhere(lambda: torch.randn(3).mul_(2), torch.zeros(1)); "
        "assert not any(name.startswith('torch._dynamo') for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
