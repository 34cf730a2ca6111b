"""Candidates that ask whether their tensors are on a GPU, on a device that has none."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from workers.backends.interpreter import claimed_gpu

CANDIDATE = """
import torch
from other import asked

def checked(x):
    assert x.is_cuda and all(each.is_cuda for each in (x, x))
    if not x.is_cuda:
        x = x.cuda()
    if x.is_cuda:
        torch.cuda.synchronize()
    index = torch.cuda.current_device() if x.is_cuda else -1
    x.is_cuda and torch.cuda.synchronize()
    return [x.is_cuda, torch.nn.Parameter(x).is_cuda, index, asked(x)]
"""
OTHER = "def asked(x):\n    return x.is_cuda\n"
RUN = """
import json, sys
from pathlib import Path
from workers.backends import base
from workers.backends.interpreter import claimed_gpu
import torch
path = Path(sys.argv[1])
sys.path.insert(0, str(path.parent))
claimed_gpu.install(path)
print(json.dumps(base.execute(path).checked(torch.ones(2)) + [torch.ones(2).is_cuda]))
"""


def test_a_candidates_tensors_are_on_a_gpu_where_its_file_asks(tmp_path: Path) -> None:
    path = tmp_path / "source.py"
    path.write_text(CANDIDATE)
    (tmp_path / "other.py").write_text(OTHER)
    ran = subprocess.run(
        [sys.executable, "-c", RUN, str(path)], capture_output=True, text=True, check=True
    )
    assert json.loads(ran.stdout) == [True, True, -1, False, False]


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("assert x.is_cuda", set()),
        ("if not x.is_cuda: raise ValueError('not on cuda')", set()),
        ("if not x.is_cuda: x = x.cuda()", set()),
        ("y = kernel(x) if x.is_cuda else torch.relu(x)", set()),
        ("if x.is_cuda:\n  kernel(x)\nelse:\n  x = x.cuda()", set()),
        ("if x.is_cuda: torch.cuda.synchronize()", {1}),
        ("if n and (\n  x.is_cuda):\n  y = torch.empty(1, device='cuda:0')", {2}),
        ("if not x.is_cuda: pass\nelse: torch.cuda.synchronize()", {1}),
        ("while x.is_cuda and torch.cuda.is_available(): pass", {1}),
        ("y = other if not x.is_cuda else x.to('cuda')", {1}),
        ("if x.dtype == half: torch.cuda.synchronize()", set()),
        ("assert (", set()),
    ],
)
def test_questions_that_decide_on_a_use_of_a_gpu_have_the_truth(
    source: str, lines: set[int]
) -> None:
    assert claimed_gpu.lines_of_truth(source.encode()) == lines
