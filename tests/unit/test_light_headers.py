"""Extensions compiled with light stand-ins for PyTorch's headers, and with its own where those do
not suffice (tests/gpu/test_light_headers_on_gpu.py).
"""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils import cpp_extension

from tests import extension_builds
from workers.backends.support import light_headers

needs_compiler = pytest.mark.skipif(
    shutil.which("c++") is None or shutil.which("ninja") is None,
    reason="compiles C++: needs c++ and ninja",
)

SOURCE = """
torch::Tensor scaled(torch::Tensor x, double by, std::optional<torch::Tensor> shift) {
    TORCH_CHECK(x.is_contiguous(), "expected a contiguous tensor");
    auto out = torch::zeros_like(x);
    auto wide = torch::empty({2}, torch::dtype(torch::kFloat64).device(torch::kCPU));
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "scaled", [&] {
        auto to = out.accessor<scalar_t, 1>();
        auto from = x.accessor<scalar_t, 1>();
        for (int64_t i = 0; i < x.size(0); ++i) to[i] = from[i] * static_cast<scalar_t>(by);
    });
    if (shift) out = out + *shift;
    return out.to(wide.scalar_type()).contiguous();
}
"""


class Builds:
    """A module with a build function that fails where stand-ins are searched first."""

    def __init__(self, *, fails: bool) -> None:
        self.asked: list[tuple[str, bool]] = []
        self._fails = fails

    def build(self, *, verbose: bool) -> None:
        path = os.environ.get("CPATH", "")
        self.asked.append((path, verbose))
        if self._fails and path:
            raise RuntimeError("error: 'nn' is not a member of 'torch'")


@pytest.mark.parametrize("fails", [False, True])
def test_the_stand_ins_come_first_and_silently(fails, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv("CPATH", raising=False)
    builds = Builds(fails=fails)
    module: Any = SimpleNamespace(**{light_headers.BUILD: builds.build})
    light_headers.use(tmp_path, module)
    getattr(module, light_headers.BUILD)(verbose=True)
    light = (str(tmp_path), False)
    assert builds.asked == ([light, ("", True)] if fails else [light])
    assert {path.name for path in (tmp_path / "torch").iterdir()} == {"extension.h", "types.h"}


def test_a_torch_that_builds_otherwise_is_left_as_it_is(tmp_path: Path) -> None:
    module = SimpleNamespace()
    light_headers.use(tmp_path, module)
    assert vars(module) == {}


def test_torch_has_the_function_that_is_wrapped() -> None:
    assert callable(getattr(cpp_extension, light_headers.BUILD))


@needs_compiler
def test_extensions_are_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors, factories, dispatch and optional arguments compile with the stand-ins."""
    attempts = extension_builds.counted(tmp_path, monkeypatch)
    module = cpp_extension.load_inline("scaling", cpp_sources=SOURCE, functions=["scaled"])
    x = torch.tensor([1.0, -2.0])
    assert module.scaled(x, 3.0, torch.ones(2)).tolist() == [4.0, -5.0]
    assert module.scaled(x, 3.0, None).dtype == torch.float64
    assert len(attempts) == 1
