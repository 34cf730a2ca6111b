"""Keys of problems: rewrites keep them, another computation has others."""

from __future__ import annotations

import pytest

from app.domain.dataset import problem_family
from tests.bench import problem_recognition

BLOCKS = """
import torch
import torch.nn as nn
import torch.nn.functional as F

class Block(nn.Module):
    expansion = 2

    def __init__(self, channels: int, stride: int = 1):
        \"\"\"A residual block.\"\"\"
        super(Block, self).__init__()
        self.first = nn.Conv2d(
            channels, channels, kernel_size=3, stride=stride, padding=1, bias=False)
        self.second = nn.Conv2d(channels, channels * self.expansion, kernel_size=1)
        self.norm = nn.BatchNorm2d(channels * self.expansion)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = F.relu(self.first(x))
        return self.norm(self.second(out))


class Model(nn.Module):
    def __init__(self, channels, depth=3, downsample=None):
        super(Model, self).__init__()
        blocks = []
        for place in range(depth):
            blocks.append(Block(channels, stride=1))
            channels = channels * 2
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(channels, 10)
        if downsample is not None:
            self.scale = downsample
        else:
            self.scale = 1.5

    def _pooled(self, x):
        return torch.flatten(F.adaptive_avg_pool2d(x, (1, 1)), 1)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        pooled = self._pooled(x)
        weights = torch.softmax(self.head(pooled), dim=-1)
        return [w * self.scale for w in weights]

batch_size = 4
channels = 16

def get_inputs():
    return [torch.randn(batch_size, channels, 32, 32)]

def get_init_inputs():
    return [channels]
"""
PLAIN = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, rows: int):
        super(Model, self).__init__()
        self.linear = nn.Linear(rows, 64)
        self.other = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        left = self.linear(x)
        right = self.other(y)
        return torch.matmul(torch.tanh(left), right.T)

rows = 32

def get_inputs():
    return [torch.randn(8, rows), torch.randn(8, 64)]

def get_init_inputs():
    return [rows]
"""


def test_a_rewrite_of_the_text_keeps_every_key() -> None:
    found = problem_recognition.measure({"blocks": BLOCKS, "plain": PLAIN})
    assert found["merged"] == found["families"] == []
    for name, counts in found["rewrites"].items():
        assert counts == {"exact": 2, "family": 2, "held_out": 2, "of": 2}, name


@pytest.mark.parametrize(
    ("before", "after", "families_alike"),
    [
        ("rows = 32", "rows = 48", True),
        ("nn.Linear(64, 64)", "nn.Linear(64, 128)", True),
        ("torch.tanh(left)", "torch.relu(left)", False),
        ("torch.tanh(left), right.T", "right, torch.tanh(left).T", False),
        ("self.other(y)", "self.linear(y)", False),
        ("self.other(y)", "self.other(x)", False),
        ("return torch.matmul", "left[0] = 0\n        return torch.matmul", False),
        ("nn.Linear(64, 64)", "nn.Linear(64, 64, bias=False)", False),
    ],
)
def test_another_computation_has_another_key(before: str, after: str, families_alike: bool) -> None:
    assert PLAIN.count(before) >= 1
    one, other = (
        problem_family.keys(text.encode(), "Model")
        for text in (PLAIN, PLAIN.replace(before, after))
    )
    assert one.exact != other.exact
    assert (one.family == other.family) is families_alike


def test_numbers_that_pick_an_item_are_kept() -> None:
    text = (
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return"
        " torch.max(x, 1)[{}]\n"
    )
    values, places = (
        problem_family.keys(text.format(number).encode(), "Model") for number in (0, 1)
    )
    assert values.family != places.family


def test_what_depends_on_each_other_keeps_its_order() -> None:
    text = "def get_cases():\n    x = []\n    {}\n    {}\n    return x\n"
    first, second = "x.append('one')", "x.append('two')"
    one, other = (
        problem_family.keys(text.format(*order).encode(), "Model")
        for order in ((first, second), (second, first))
    )
    assert one.exact != other.exact


def test_a_constant_computed_or_written_out_is_the_same_number() -> None:
    text = "def get_cases():\n    return [{}]\n"
    assert (
        len(
            {
                problem_family.keys(text.format(n).encode(), "x").exact
                for n in ("2048", "2 * 1024", "1 << 11")
            }
        )
        == 2
    )
    assert (
        len(
            {
                problem_family.keys(text.format(n).encode(), "x").exact
                for n in ("-1", "- 1", "0 - 1")
            }
        )
        == 1
    )
