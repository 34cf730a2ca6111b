"""Modules that a source imports by their names: harmless ones, and ways out of its code."""

import pytest

from app.domain.source import process_reach

VERSION = """
import importlib
def compare_version(package, operator, target):
    try:
        pkg = importlib.import_module(package)
    except ImportError:
        return False
    return operator(pkg.__version__, target)
"""
FIRST = """
import importlib.util
def find(name):
    places = ("triton.language.extra.libdevice", "triton.language.math")
    for place in places:
        if spec := importlib.util.find_spec(place):
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return getattr(module, name)
"""
FIRST_BY_FUNCTIONS = (
    FIRST.replace(
        "import importlib.util", "from importlib.util import find_spec, module_from_spec as made"
    )
    .replace("importlib.util.find_spec", "find_spec")
    .replace("importlib.util.module_from_spec", "made")
)


@pytest.mark.parametrize(
    "source",
    [
        "import importlib\nt = importlib.import_module('triton')",
        VERSION + "compare_version('triton', f, '3')\ncompare_version('torch', f, '2')",
        VERSION + "compare_version('pytorch-triton-xpu', f, '3')",
        FIRST + "find('rsqrt')",
        FIRST_BY_FUNCTIONS + "find('rsqrt')",
        "from importlib import import_module\nt = import_module('triton')",
        "import importlib.util\nfast = importlib.util.find_spec(name) is not None",
        "from importlib.util import find_spec\nfast = find_spec(name) is not None",
        "import importlib.metadata\nv = importlib.metadata.version('torch')",
        "import gc\ngc.collect()",
        "gc = 3\nx = gc + 1",
        "import torch.nn as nn\nnn.modules.utils._pair(1)",
        "import sys\nx = sys\nx.path",
    ],
)
def test_names_of_libraries_are_harmless(source: str) -> None:
    """A library's version and functions may be asked for by its name."""
    assert process_reach.ways(source.encode()) == ()


@pytest.mark.parametrize(
    ("source", "way"),
    [
        ("import importlib\nm = importlib.import_module('gc')", "importlib.import_module"),
        ("import importlib.util\nm = importlib.import_module('gc')", "importlib.import_module"),
        ("import importlib\nm = importlib.import_module(name)", "importlib.import_module"),
        (VERSION + "compare_version('gc', f, '3')", "importlib.import_module"),
        (VERSION + "compare_version('g' + 'c', f, '3')", "importlib.import_module"),
        (VERSION + "compare_version(*a, 'torch')", "importlib.import_module"),
        (VERSION + "g = compare_version\ng('gc', f, '3')", "importlib.import_module"),
        (VERSION.replace("    try", "    package = n()\n    try"), "importlib.import_module"),
        (
            "import importlib\nimportlib.import_module('torch').relu = f",
            "importlib.import_module",
        ),
        (
            "import importlib\nf(importlib.import_module('torch'))",
            "importlib.import_module",
        ),
        ("import importlib\nt = importlib.import_module('torch')\nt.relu = f", "t.relu ="),
        (
            "import importlib\nt = importlib.import_module('torch.multiprocessing')",
            "importlib.import_module",
        ),
        ("import importlib\nimportlib.reload(torch)", "importlib.reload"),
        ("import importlib\nx = importlib", "importlib"),
        ("import importlib as i\ni.import_module('gc')", "importlib"),
        ("from importlib import util", "importlib.util"),
        (FIRST.replace('("triton.', '("gc", "triton.'), "importlib.util.module_from_spec"),
        (
            FIRST_BY_FUNCTIONS.replace('("triton.', '("gc", "triton.'),
            "importlib.util.module_from_spec",
        ),
        (
            FIRST.replace("in places:", 'in ("gc",):').replace(
                "importlib.util.find_spec", "find_spec"
            )
            + "from importlib.util import find_spec",
            "importlib.util.module_from_spec",
        ),
        ("from importlib import import_module\nm = import_module('gc')", "importlib.import_module"),
        ("from importlib import import_module\nm = import_module", "importlib.import_module"),
        (
            "from importlib import import_module\nimport_module.__globals__",
            "importlib.import_module.__globals__",
        ),
        ("from importlib.util import spec_from_loader", "importlib.util.spec_from_loader"),
        (
            "import importlib.util\ns = importlib.util.spec_from_file_location('a', path)",
            "importlib.util.spec_from_file_location",
        ),
        ("import gc as g\ng.get_objects()", "gc"),
        ("import gc\nx = gc\nx.get_objects()", "gc"),
        ("import gc\ngetattr(gc, 'get_objects')()", "gc"),
        ("import inspect as i\ni.stack()", "inspect"),
        ("import sys as s\ns.modules", "sys.modules"),
        ("from sys import modules", "sys.modules"),
        ("import sys\nx = y = sys\nz = x\nz.modules", "sys.modules"),
        ("from torch import jit\njit.freeze(m)", "torch.jit.freeze"),
    ],
)
def test_other_names_are_ways(source: str, way: str) -> None:
    """A module that reaches into the process, or that cannot be read in the source, is a way."""
    assert way in process_reach.ways(source.encode())


def test_a_name_that_is_bound_twice_is_read_once() -> None:
    # two readings for each binding would take longer than the universe has
    chain = "".join(f"a{i} = a{i + 1}\na{i} = a{i + 1}\n" for i in range(60))
    source = f"import importlib\n{chain}a60 = {{!r}}\nm = importlib.import_module(a0)\n"
    assert process_reach.ways(source.format("torch").encode()) == ()
    assert process_reach.ways(source.format("gc").encode()) == ("importlib.import_module",)


def test_a_name_that_depends_on_itself_cannot_be_read() -> None:
    source = b"import importlib\na = b\nb = a\nm = importlib.import_module(a)\n"
    assert process_reach.ways(source) == ("importlib.import_module",)
