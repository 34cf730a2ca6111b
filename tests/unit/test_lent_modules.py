"""Modules that a source takes from libraries, and functions that run text, by other names."""

import pytest

from app.domain.source import process_reach

HEAD = "import torch, numpy\nimport triton.runtime.jit as j\n"


@pytest.mark.parametrize(
    ("source", "way"),
    [
        ("torch.inspect.currentframe()", "torch.inspect"),
        ("torch.builtins.exec(text)", "torch.builtins"),
        ("torch.serialization.pickle.loads(b'')", "torch.serialization.pickle"),
        ("torch.multiprocessing.Process()", "torch.multiprocessing"),
        ("t = torch\nt.importlib.import_module(name)", "t.importlib"),
        ("j.inspect.stack()", "j.inspect"),
        ("from torch import inspect as i", "torch.inspect"),
        ("torch.sys.modules", "torch.sys.modules"),
        ("numpy.core.multiarray.os.sys.modules", "numpy.core.multiarray.os.sys.modules"),
        ("from torch import sys as s\ns.modules", "torch.sys.modules"),
        ("run = exec\nrun(text)", "exec"),
        ("list(map(eval, texts))", "eval"),
        ("import functools\nfunctools.partial(__import__, name)()", "__import__"),
        ("__builtins__['exec'](text)", "__builtins__"),
        ("__loader__.load_module(name)", "__loader__"),
        ("__spec__.loader", "__spec__"),
        ("torch.__loader__.load_module(name)", "torch.__loader__"),
        ("abs.__self__.exec(text)", "abs.__self__"),
        ("from typing import get_type_hints", "typing.get_type_hints"),
    ],
)
def test_what_others_hold_is_a_way(source: str, way: str) -> None:
    assert way in process_reach.ways((HEAD + source).encode())


@pytest.mark.parametrize(
    "source",
    [
        "class A:\n  def f(self): return self.inspect.count",
        "class M:\n  def f(self):\n    self.eval()\n    self.inner.eval()",
        "torch.trace(x)",
        "import gc\ngc.collect()",
        "import inspect\ninspect.signature(f)",
        "import importlib.util\nimportlib.util.find_spec('triton')",
    ],
)
def test_members_of_its_own_and_harmless_ones_are_no_way(source: str) -> None:
    assert process_reach.ways((HEAD + source).encode()) == ()
