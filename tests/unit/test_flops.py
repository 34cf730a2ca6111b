"""FLOPs are torch's own count, without its compiler."""

import subprocess
import sys

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from workers.shims.problem.flops import FlopCounter


def test_the_same_as_torch_counts() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 4))
    image, tokens = torch.randn(2, 3, 8, 8), torch.randn(1, 2, 16, 8)

    def work() -> None:
        model(image)
        nn.functional.scaled_dot_product_attention(tokens, tokens, tokens)
        torch.einsum("bij,bjk->bik", tokens[0], tokens[0].mT)

    with torch.no_grad(), FlopCounter() as ours:
        work()
    with torch.no_grad(), FlopCounterMode(display=False) as theirs:
        work()
    assert ours.total == theirs.get_total_flops() > 0


def test_the_compiler_is_not_imported_for_it() -> None:
    code = (
        "import sys, torch; from workers.shims.problem.flops import FlopCounter\n"
        "with FlopCounter() as c: torch.ones(2, 2) @ torch.ones(2, 2)\n"
        "print(c.total, 'torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["16", "False"]
