"""Objects that a source makes in place of a library that is missing."""

import pytest

from app.domain.source import process_reach

HANDLER = """
try:
    import triton
    import triton.language as tl
except ImportError:
    import types
    triton = types.ModuleType("triton")
    triton.jit = lambda function: function
    triton.Config = dict
    tl = types.ModuleType("triton.language")
    tl.constexpr = int
"""


def test_members_of_modules_of_its_own_are_no_way() -> None:
    assert process_reach.ways(HANDLER.encode()) == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("    triton.jit = lambda function: function\n", "    triton.load.x = f\n"),
        ('    triton = types.ModuleType("triton")\n', ""),
        ('    triton = types.ModuleType("triton")\n', "    triton = types.ModuleType(f())\n"),
        ('types.ModuleType("triton")', 'others.ModuleType("triton")'),
        ("    triton.Config = dict\n", "    import triton\n    triton.Config = dict\n"),
        ("triton.Config = dict", "triton.Config = f()"),
        ("    import types\n", "    from others import types\n"),
        ("    import types\n", "    import types\n    from others import *\n"),
        ("    import types\n", "    import types\n    globals()['types'] = others\n"),
        ("    import types\n", "    import types\n    types.ModuleType = f\n"),
        ("try:\n", "def types(): pass\ntry:\n"),
        ("    tl.constexpr = int\n", "    tl.constexpr = int\ntriton.jit = f\n"),
    ],
)
def test_members_of_what_may_be_a_library_are_a_way(before: str, after: str) -> None:
    source = HANDLER.replace(before, after)
    assert source != HANDLER
    assert process_reach.ways(source.encode())


MOCKED = """
from unittest.mock import MagicMock

try:
    import triton
    import triton.language as tl
    HAVE_TRITON = tl.constexpr(True)
except ImportError:
    HAVE_TRITON = False

if not HAVE_TRITON:
    triton = MagicMock()
    triton.jit = null_decorator
    triton.autotune = null_decorator
    tl = MagicMock()

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.kind = getattr(torch, "float16")
"""


def test_members_of_mocks_are_no_way() -> None:
    assert process_reach.ways(MOCKED.encode()) == ()


def test_mocks_in_a_handler_are_no_way() -> None:
    source = HANDLER.replace("import types", "from unittest.mock import MagicMock")
    source = source.replace('types.ModuleType("triton")', "MagicMock()")
    assert process_reach.ways(source.replace('types.ModuleType("triton.language")', "f").encode())
    source = source.replace('types.ModuleType("triton.language")', "MagicMock()")
    assert process_reach.ways(source.encode()) == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("triton = MagicMock()", "triton = MagicMock(wraps=triton)"),
        ("tl = MagicMock()", "tl = type(triton)(a=torch, **settings)"),
        ("tl = MagicMock()", "tl = MagicMock()\ntriton.configure_mock(a=torch, **settings)"),
        ("tl = MagicMock()", "tl = MagicMock()\ntriton.__init__(a=torch, **settings)"),
        ("tl = MagicMock()", "tl = MagicMock()\ngetattr(tl, name)(a=torch, **settings)"),
        ("tl = MagicMock()", "tl = MagicMock()\nreach = getattr\nreach(tl, name)(a=torch)"),
        ("tl = MagicMock()", "tl = MagicMock\nt = tl(a=torch)"),
        ("import MagicMock\n", "import MagicMock, patch\n"),
        ("from unittest.mock import", "from others import"),
        ("    triton = MagicMock()\n", ""),
        ("    triton = MagicMock()\n", "    triton = MagicMock()\n    import triton\n"),
        ("if not HAVE_TRITON:\n", "def MagicMock(): return torch\nif not HAVE_TRITON:\n"),
        ("    tl = MagicMock()\n", "    tl = MagicMock()\ntriton.jit = f\n"),
    ],
)
def test_other_uses_of_mocks_are_a_way(before: str, after: str) -> None:
    source = MOCKED.replace(before, after)
    assert source != MOCKED
    assert process_reach.ways(source.encode())
