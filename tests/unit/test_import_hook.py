"""A module is changed the moment that it has been imported, and a kernel inside
torch.compile is recorded by that.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from workers.backends.support.import_hook import once_imported


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of a module that is not imported."""
    (tmp_path / "late_module.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.delitem(sys.modules, "late_module", raising=False)
    return "late_module"


def test_it_is_changed_once_it_is_there(module: str) -> None:
    before = len(sys.meta_path)
    once_imported(module, lambda found: setattr(found, "value", 2))
    assert module not in sys.modules
    assert __import__(module).value == 2
    assert len(sys.meta_path) == before
    once_imported(module, lambda found: setattr(found, "value", found.value + 5))
    assert sys.modules[module].value == 7


def test_what_is_nowhere_stays_so() -> None:
    before = list(sys.meta_path)
    once_imported("no_such_module", lambda found: pytest.fail(str(found)))
    with pytest.raises(ModuleNotFoundError):
        __import__("no_such_module")
    assert sys.meta_path == before


INLINED = """
import sys
from pathlib import Path
from types import SimpleNamespace
from workers.backends import triton
from workers.backends.recording.recorder import Recorder
from workers.protocol.control_channel import AblationMode

assert triton.INDUCTOR not in sys.modules
recorder = Recorder()
triton.TritonBackend().build(Path(sys.argv[1]), recorder)
import torch._inductor.runtime.triton_heuristics as heuristics
ran = []
launch = lambda *args, stream: ran.append(args)

def kernel(name, custom):
    made = object.__new__(heuristics.CachingAutotuner)
    fn = SimpleNamespace(__name__=name)
    made.__dict__.update(custom_kernel=custom, _cached_launcher=launch, fn=fn)
    return made

kernel("own", True).run(1, stream=0)
kernel("triton_poi_fused_0", False).run(2, stream=0)
assert (recorder.total, recorder.names, ran) == (1, {"own"}, [(1,), (2,)]), (recorder, ran)
recorder.substitute(AblationMode.NOTHING)
kernel("own", True).run(3, stream=0)
kernel("triton_poi_fused_0", False).run(4, stream=0)
assert (recorder.total, ran) == (2, [(1,), (2,), (4,)]), (recorder, ran)
"""


def test_a_kernel_of_its_own_inside_what_torch_compiles_is_a_launch(tmp_path: Path) -> None:
    """In a process of its own, because Triton's classes are changed."""
    candidate = tmp_path / "candidate.py"
    candidate.write_text("")
    subprocess.run([sys.executable, "-c", INLINED, str(candidate)], check=True, timeout=120)


COMPILED = """
import sys
from pathlib import Path
from types import SimpleNamespace
from triton.compiler import CompiledKernel
from workers.backends import triton
from workers.backends.recording.recorder import Recorder
from workers.protocol.control_channel import AblationMode

ran = []
CompiledKernel.__getitem__ = lambda self, grid: lambda *args, **kwargs: ran.append((grid, args))
recorder = Recorder()
triton.TritonBackend().build(Path(sys.argv[1]), recorder)
kernel = object.__new__(CompiledKernel)
kernel.name = "own"
kernel[(3, 1, 1)](1, 2)
assert (recorder.total, recorder.names, ran) == (1, {"own"}, [((3, 1, 1), (1, 2))]), (recorder, ran)
recorder.substitute(AblationMode.NOTHING)
kernel[(3, 1, 1)](1, 2)
assert (recorder.total, len(ran)) == (2, 1), (recorder, ran)
"""


def test_a_kernel_that_was_compiled_beforehand_is_a_launch(tmp_path: Path) -> None:
    candidate = tmp_path / "candidate.py"
    candidate.write_text("")
    subprocess.run([sys.executable, "-c", COMPILED, str(candidate)], check=True, timeout=120)
