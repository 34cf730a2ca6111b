"""How libraries compute in fp32: a problem's choice holds for its candidates, by
either of PyTorch's ways.
"""

import os

import pytest
import torch

from workers.protocol import precision_flags
from workers.shims.problem.answers import true_answer

AS_SHIPPED: dict[str, str | bool] = {
    "matmul": "none",
    "convolution": "tf32",
    "rnn": "tf32",
    "benchmark": False,
    "deterministic": False,
}


def in_a_process(code: str) -> str:
    """Value of `found` after the code, in a fork: the choice belongs to a process."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        names = {"torch": torch, "numerics": precision_flags, "truth": true_answer}
        try:
            exec(code, names)
            os.write(writing, str(names["found"]).encode())
        except BaseException as error:  # noqa: BLE001 (nothing of this process may go on)
            os.write(writing, repr(error).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as said:
        found = said.read()
    os.waitpid(pid, 0)
    return found


def test_pytorch_ships_it_as_we_say() -> None:
    assert in_a_process("found = numerics.chosen()") == str(AS_SHIPPED)
    assert precision_flags.described(AS_SHIPPED) == "matmul fp32, convolution TF32, rnn TF32"


@pytest.mark.parametrize(
    ("set_by_the_problem", "found"),
    [
        ("torch.backends.cuda.matmul.allow_tf32 = True", "matmul TF32, convolution TF32, rnn TF32"),
        ("torch.set_float32_matmul_precision('high')", "matmul TF32, convolution TF32, rnn TF32"),
        (
            "torch.backends.cuda.matmul.fp32_precision = 'tf32'",
            "matmul TF32, convolution TF32, rnn TF32",
        ),
        ("torch.backends.cudnn.allow_tf32 = False", "matmul fp32, convolution fp32, rnn fp32"),
        (
            "torch.backends.cudnn.conv.fp32_precision = 'ieee'",
            "matmul fp32, convolution fp32, rnn TF32",
        ),
        (
            "torch.backends.cudnn.benchmark = True",
            "matmul fp32, convolution TF32, rnn TF32, cudnn.benchmark",
        ),
    ],
)
def test_what_a_problem_sets_holds_for_its_candidates(set_by_the_problem: str, found: str) -> None:
    """Read in one process, chosen in another; and the other is none the worse for
    asking in either way.
    """
    theirs = in_a_process(f"{set_by_the_problem}\nfound = numerics.checked(numerics.chosen())")
    ours = in_a_process(
        f"numerics.choose({theirs})\nfound = numerics.described(numerics.chosen())\n"
        "torch.backends.cuda.matmul.allow_tf32 = True\ntorch.backends.cuda.matmul.allow_tf32"
    )
    assert ours == found


@pytest.mark.parametrize(
    "set_by_the_problem",
    [
        "pass",
        "torch.backends.cuda.matmul.allow_tf32 = True",
        "torch.backends.cuda.matmul.fp32_precision = 'tf32'",
        "torch.backends.cudnn.conv.fp32_precision = 'ieee'",
        "torch.backends.cudnn.rnn.fp32_precision = 'ieee'",
        "torch.backends.fp32_precision = 'tf32'",
    ],
)
def test_the_truth_in_fp32_is_without_tf32_and_leaves_the_choice(set_by_the_problem: str) -> None:
    found = in_a_process(
        f"{set_by_the_problem}\nbefore = numerics.described(numerics.chosen())\n"
        "with truth._without_tf32():\n    inside = numerics.described(numerics.chosen())\n"
        "found = inside, numerics.described(numerics.chosen()) == before"
    )
    assert found == str(("matmul fp32, convolution fp32, rnn fp32", True))


@pytest.mark.parametrize(
    "fields",
    [None, {}, AS_SHIPPED | {"matmul": "fast"}, AS_SHIPPED | {"more": 1}, {"matmul": "ieee"}],
)
def test_the_referee_believes_no_other_choice(fields: object) -> None:
    with pytest.raises(ValueError, match="not a"):
        precision_flags.checked(fields)
