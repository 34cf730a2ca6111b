"""FLOPs are torch's own count, without its compiler."""

import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from app.domain.kernel_profile import ReferenceChains
from workers.backends.recording.library_work import OPERATOR_BYTES
from workers.protocol.reference_work import ReferenceWork
from workers.shims.problem.observers.flops import FlopCounter


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


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_count_their_matrices_at_each_step(kind: Callable[..., nn.Module]) -> None:
    layers, x = kind(32, 48, 2, bidirectional=True), torch.randn(10, 4, 32)
    weights = [each.shape for each in layers.parameters()]
    flops = 2 * 10 * 4 * sum(math.prod(shape) for shape in weights if len(shape) == 2)
    with torch.no_grad(), FlopCounter() as counter:
        layers(x)
    assert counter.total == flops
    of_cudnn = flop_registry[torch.ops.aten._cudnn_rnn]
    assert of_cudnn(x, list(layers.parameters()), 4, None, out_val=(x,)) == flops


def test_products_are_listed_and_all_else_is_weighed() -> None:
    x, weight = torch.randn(6, 8), torch.randn(10, 8)
    with torch.no_grad(), FlopCounter() as counter:
        torch.relu(x @ weight.T).view(-1)
    whole = 2 * OPERATOR_BYTES + 2 * 4 * 6 * 10 + 4 * (6 * 8 + 8 * 10 + 6 * 10)
    assert counter.work == ReferenceWork(
        flops=2 * 6 * 8 * 10,
        products=(2 * 6 * 8 * 10,),
        rest_bytes=2 * 4 * 6 * 10,  # read and written once; transposing and viewing are free
        rest_operators=1,
        local_bytes=whole,  # a product of eight terms, too
        head_bytes=whole,
        whole_bytes=whole,
    )


def test_work_is_read_as_it_was_written() -> None:
    work = ReferenceWork(
        flops=1 << 40,
        products=(3, 1 << 40),
        rest_bytes=12,
        rest_operators=2,
        head_bytes=7,
        tail_bytes=5,
        chains=ReferenceChains(launched_bytes=3, rest_bytes=4),
    )
    assert ReferenceWork.checked(json.loads(json.dumps(asdict(work)))) == work


@pytest.mark.parametrize(
    "wrong",
    [
        {"rest_bytes": -1},
        {"flops": 1 << 70},
        {"products": [1] * 5000},
        {"products": ["many"]},
        {"chains": {**asdict(ReferenceChains()), "rest_bytes": -1}},
    ],
)
def test_numbers_that_are_no_work_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"expected numbers|invalid literal"):
        ReferenceWork.checked(asdict(ReferenceWork()) | wrong)


def test_the_compiler_is_not_imported_for_it() -> None:
    code = (
        "import sys, torch; from workers.shims.problem.observers.flops import FlopCounter\n"
        "with FlopCounter() as c: torch.ones(2, 2) @ torch.ones(2, 2)\n"
        "print(c.total, 'torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["16", "False"]
