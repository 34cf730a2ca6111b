"""Ways out of a candidate's own code, as they stand in its source."""

import pytest

from app.domain.source import process_reach, process_reach_names

HEAD = (
    "import torch, sys, io\nimport triton\nimport triton.language as tl\nfrom torch.nn import"
    " functional as F\n"
)


@pytest.mark.parametrize(
    ("source", "way"),
    [
        ("tl.load = f", "tl.load ="),
        ("tl.load: object = f", "tl.load ="),
        ("tl.load, x = f, 1", "tl.load ="),
        ("for tl.load in (f,): pass", "tl.load ="),
        ("with f() as tl.load: pass", "tl.load ="),
        ("tl.load += f", "tl.load ="),
        ("del torch.Tensor.numpy", "torch.Tensor.numpy ="),
        ("t = tl.core\nt.load = f", "t.load ="),
        ("t = u = tl\nv = u\nv.load = f", "v.load ="),
        ("(t := tl).load\nt.load = f", "t.load ="),
        ("for t in (tl, F): t.load = f", "t.load ="),
        ("vars(tl)['load'] = f", "vars(tl)"),
        ("tl.__dict__['load'] = f", "tl.__dict__"),
        ("torch.Tensor.__setattr__(tl, 'load', f)", "torch.Tensor.__setattr__"),
        ("setattr(tl, 'load', f)", "setattr(tl)"),
        ("super(torch.Tensor, x).numpy()", "super(torch.Tensor)"),
        ("torch._C.TensorBase.numpy(x)", "torch._C.TensorBase"),
        ("torch.Tensor.__mro__[1].numpy(x)", "torch.Tensor.__mro__"),
        ("class A: __array_interface__ = {}", "__array_interface__"),
        (
            "class A:\n  @property\n  def __array_interface__(self): return {}",
            "__array_interface__",
        ),
        ("setattr(a, '__array_interface__', {})", "__array_interface__"),
        ("from unittest import mock", "unittest.mock"),
        ("import os\nos.system('true')", "os.system"),
        (
            "from concurrent.futures import ProcessPoolExecutor",
            "concurrent.futures.ProcessPoolExecutor",
        ),
        ("import torch.multiprocessing as mp", "torch.multiprocessing"),
        ("async def f(): pass\nf().cr_frame", "cr_frame"),
        ("torch.jit.optimize_for_inference(m)", "torch.jit.optimize_for_inference"),
        ("torch.jit.freeze(m)", "torch.jit.freeze"),
        ("from operator import attrgetter\nattrgetter('f_back.f_locals')", "f_back.f_locals"),
        ("getattr(sys, '_getframe')", "_getframe"),
        ("getattr(sys, ''.join(a))", "getattr(sys, ''.join(a))"),
        ("getattr(torch._C, a + b)", "getattr(torch._C, a + b)"),
        ("compile(text, 'a', 'exec')", "compile()"),
        (
            "import inspect\ninspect.Signature.from_callable.__globals__",
            "inspect.Signature.from_callable.__globals__",
        ),
        ("import inspect\ninspect.currentframe()", "inspect.currentframe"),
        ("import runpy", "runpy"),
        ("import timeit", "timeit"),
        ("from cProfile import Profile", "cProfile.Profile"),
        (
            "torch._C._autograd._enable_record_function(False)",
            "torch._C._autograd._enable_record_function",
        ),
        ("x.untyped_storage()._write_file(f, False, False, 1)", "_write_file"),
        ("x.untyped_storage()._share_fd_cpu_()", "_share_fd_cpu_"),
        ("if __name__ == '__main__':\n  pass\nelse:\n  import runpy", "runpy"),
        ("__name__ = '__main__'\nif __name__ == '__main__':\n  import runpy", "runpy"),
        ("globals()['__name__'] = '__main__'\nif __name__ == '__main__':\n  import runpy", "runpy"),
        ("from pickle import loads", "pickle.loads"),
        ("open('torch.py', 'w').write('')", "torch.py"),
        ("sys.path.insert(0, '.')\nopen('helper.py', 'w').write('')\nimport helper", "sys.path"),
        ('if "load" not in dir(torch):\n    tl.load = f', "tl.load ="),
        ('if "store" not in dir(tl):\n    tl.load = f', "tl.load ="),
        ('def dir(x): return ()\nif "load" not in dir(tl):\n    tl.load = f', "tl.load ="),
        ('from x import dir\nif "load" not in dir(tl):\n    tl.load = f', "tl.load ="),
        ('from x import *\nif not hasattr(tl, "load"):\n    tl.load = f', "tl.load ="),
        ('if not hasattr(torch.Tensor, "at"):\n    torch.Tensor.at = f', "torch.Tensor.at ="),
        ('if not hasattr(tl, "_load"):\n    tl._load = f', "tl._load ="),
        ('if hasattr(tl, "load"):\n    tl.load = f', "tl.load ="),
        ('if "load" not in dir(tl):\n    tl.load = f\nelse:\n    tl.load = g', "tl.load ="),
    ],
)
def test_a_way_is_named(source: str, way: str) -> None:
    assert way in process_reach.ways((HEAD + source).encode())


@pytest.mark.parametrize(
    "source",
    [
        (
            "class M(torch.nn.Module):\n  def f(self):\n    super().__init__()\n   "
            " self.__dict__['y'] = self.x = 1"
        ),
        "import reference as r\nr.M = 4",
        "getattr(torch, name)\ngetattr(tl, f'float{bits}')\ngetattr(x, name)",
        "torch.compile(f, mode='x')\n'system'\n'A profiler, and settrace in a sentence'",
        "open('cache.py', 'w')",
        "sys.path.append('/kernels')",
        "if __name__ == '__main__':\n  import subprocess, torch.profiler\n  open('torch.py', 'w')",
        "conv = torch.nn.Conv2d(1, 1, 1)\nconv.weight = torch.nn.Parameter(conv.weight)",
        (
            "torch.backends.cuda.matmul.allow_tf32 = True\nb = torch.backends.cudnn\nb.benchmark ="
            " True"
        ),
        "embedding.freeze()\nmodel.modules()",
        "ctx = tl\nx = tl.load\nF = torch.nn.functional",
        "setattr(self, 'x', 1)\nvars(self)",
        "import ctypes\nfrom torch.utils.cpp_extension import load_inline",
        "import inspect\nmissing = p.default is inspect.Parameter.empty",
        "import inspect\nkind = p.kind is not inspect.Parameter.VAR_KEYWORD",
        'if "gather" not in dir(torch.distributed):\n  torch.distributed.gather = torch.cat',
        'if not hasattr(tl, "erf"):\n    tl.erf = f',
    ],
)
def test_what_honest_sources_do_is_no_way(source: str) -> None:
    assert process_reach.ways((HEAD + source).encode()) == ()


@pytest.mark.parametrize(
    ("source", "way"),
    [
        ("import ctypes.util", "ctypes.util"),
        ("from ctypes import CDLL", "ctypes.CDLL"),
        (
            "from torch.utils.cpp_extension import load_inline",
            "torch.utils.cpp_extension.load_inline",
        ),
        ("torch.ops.load_library('x.so')", "torch.ops.load_library"),
    ],
)
def test_native_code_is_a_way_where_it_has_no_account(source: str, way: str) -> None:
    assert process_reach.ways((HEAD + source).encode(), native=process_reach_names.NATIVE) == (way,)
    assert process_reach.ways((HEAD + source).encode()) == ()


@pytest.mark.parametrize(
    ("source", "files"),
    [
        ("with open('torch.py', 'w') as f: f.write('')", ("torch.py",)),
        (
            "from pathlib import Path\nPath('/a/triton/__init__.py').write_text('')",
            ("/a/triton/__init__.py",),
        ),
        ("import os\nos.symlink('x.so', 'a/torch.so')", ("a/torch.so",)),
        ("open('kernel.py', 'w')\nopen('torch.txt', 'w')", ()),
        ("name = 'torch.py'", ()),
        ("not python", ()),
    ],
)
def test_files_in_place_of_modules_are_named(source: str, files: tuple[str, ...]) -> None:
    assert process_reach.files_in_place_of_modules(source.encode()) == files


def test_a_number_that_cannot_be_written_hides_no_way() -> None:
    way = "import sys\nframe = sys._getframe(0)\n"
    hidden = f"import torch\ndef unused():\n    torch.matmul[0x{'f' * 5_000}].x = 1\n{way}"
    assert process_reach.ways(hidden.encode()) == (process_reach.TOO_LONG,)
    assert "sys._getframe" in process_reach.ways(f"N = 0x{'f' * 5_000}\n{way}".encode())


@pytest.mark.parametrize(
    ("source", "ways"),
    [
        ("@eval('''triton.heuristics({'B': lambda a: min(4, a['n'])})''')\ndef f(): pass", ()),
        ("x = eval(' eval(\"1 + 1\") ')", ()),
        ("x = eval('sys._getframe()')", ("sys._getframe",)),
        ("x = eval('eval(\"sys._getframe()\")')", ("sys._getframe",)),
        ("x = eval('tl.__dict__')", ("tl.__dict__",)),
        ("x = eval('a; b')", ("eval()",)),
        ("x = eval('1', {})", ("eval()",)),
        ("x = eval(text)", ("eval()",)),
        ("def eval(text): pass\nx = eval('1')", ("eval()",)),
        ("setattr(b, 'eval', f)\nx = eval('1')", ("eval()",)),
    ],
)
def test_a_text_that_is_an_expression_is_read_as_one(source: str, ways: tuple[str, ...]) -> None:
    assert process_reach.ways((HEAD + source).encode()) == ways
