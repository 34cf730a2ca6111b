"""Modes that intercept operators, beside torch's compiler."""

import json
import subprocess
import sys

import pytest
import torch

from workers.backends.support.dispatch_mode import Limited
from workers.backends.support.time_limit import TimeLimit

COMPILED = """
import json
import torch
from workers.backends.recording.library_work import Account

layer = torch.nn.Linear(8, 4)
whole = torch.compile(layer.forward, fullgraph=True, backend="eager")
x = torch.rand(2, 8)
with torch.no_grad():
    expected = layer(x)
    CALLED
    with Account(beyond=False) as account:
        assert torch.equal(whole(x), expected)
    assert torch.equal(whole(x), expected)
print(json.dumps([each.name for each in account.operators]))
"""


@pytest.mark.parametrize("called", ["whole(x)", "pass"])
def test_a_function_that_is_compiled_as_a_whole_runs_under_a_mode(called: str) -> None:
    code = COMPILED.replace("CALLED", called)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "aten::addmm" in json.loads(done.stdout)


def test_operators_that_take_functions_run_under_a_time_limit() -> None:
    cond, x = torch.ops.higher_order.cond, torch.ones(3)
    with torch.no_grad(), TimeLimit(60.0), Limited():
        found = cond(x.sum() > 0, lambda each: (each + 1,), lambda each: (each - 1,), (x,))
    assert torch.equal(found[0], x + 1)
