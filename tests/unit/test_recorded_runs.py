"""Errors of launches are worded as Triton's own, although launches are recorded."""

import pytest

from workers.backends import triton
from workers.backends.recording.recorder import Recorder


class Kernel:
    def run(self, *, grid, warmup, **kwargs):  # the form of triton.runtime.jit.JITFunction.run
        pass


def test_an_argument_that_is_given_twice_is_an_error_of_the_kernel_s_own_run() -> None:
    triton._record_run(Kernel, Recorder())
    given, tuned = {"BLOCK": 1}, {"BLOCK": 2}
    with pytest.raises(TypeError, match="got multiple values") as told:
        Kernel().run(grid=(1,), warmup=False, **given, **tuned)
    assert "Kernel.run()" in str(told.value)
    assert "workers" not in str(told.value)
