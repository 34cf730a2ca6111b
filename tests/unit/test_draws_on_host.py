"""Problems with a `get_inputs` that runs only if factory functions make their tensors on the host.
torch's meta device stands for a GPU: it refuses a conversion to numpy just as well.
"""

from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from workers.shims import calls
from workers.shims.problem.reference_problem import Problem

META = torch.device("meta")


def with_generator() -> list[Any]:
    own = torch.Generator().manual_seed(int(torch.randint(1 << 31, (), device="cpu")))
    if torch.get_default_device().type != own.device.type:  # the meta device ignores generators
        raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")
    return [torch.randn(3, generator=own), 2.0]


def through_numpy() -> list[Any]:
    return [torch.from_numpy(torch.randn(3).numpy() * numpy.random.rand()), 2.0]


def beside_a_constant() -> list[Any]:
    return [torch.randn(3).numpy().sum() + torch.arange(3.0, device="cpu"), 2.0]


def plain() -> list[Any]:
    return [torch.randn(3), 2.0]


def _problem(tmp_path: Path) -> Problem:
    return Problem(tmp_path, META)


@pytest.mark.parametrize("get_inputs", [with_generator, through_numpy, beside_a_constant])
def test_inputs_drawn_on_the_host_are_moved(get_inputs: Any, tmp_path: Path) -> None:
    problem, made = _problem(tmp_path), []

    def draw() -> list[Any]:
        made.append(get_inputs())
        return made[-1]

    for _ in range(2):
        calls.seed_everything(b"8 bytes.", calls.DRAWING)
        inputs = problem.draw(draw)
        assert inputs[0].device == META
        assert inputs[1] == 2.0
    calls.seed_everything(b"8 bytes.", calls.DRAWING)
    alone = get_inputs()[0]
    assert alone.device.type == "cpu"
    assert [x.tolist() for x, _ in made] == [alone.tolist()] * 2, "as under the seed alone"


def test_factory_functions_make_tensors_on_the_device(tmp_path: Path) -> None:
    problem, made = _problem(tmp_path), []
    for _ in range(2):
        problem.draw(lambda: made.append(plain()) or made[-1])
    assert [x.device for x, _ in made] == [META] * 2


def test_code_that_runs_nowhere_says_so_as_on_the_host(tmp_path: Path) -> None:
    def draw() -> list[Any]:
        raise ValueError(f"on {torch.get_default_device()}")

    problem = _problem(tmp_path)
    for _ in range(2):
        with pytest.raises(ValueError, match="on cpu") as raised:
            problem.draw(draw)
        assert raised.value.__context__ is None


def test_a_device_without_memory_does_not_move_a_problem_to_the_host(tmp_path: Path) -> None:
    def draw() -> list[Any]:
        if full:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return plain()

    problem, full = _problem(tmp_path), True
    with pytest.raises(torch.OutOfMemoryError):
        problem.draw(draw)
    full = False
    assert problem.draw(draw)[0].device == META
    assert problem._draws_on_host is False
