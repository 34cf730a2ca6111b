"""Messages that send an author the right way: compilers' first errors, weights
without a place, unwritten elements.
"""

import mmap
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch import nn
from triton.compiler.errors import CompilationError

from app.domain.output_checks import OutputCheck, Trial
from workers.protocol import control_channel
from workers.referee import wrong_output
from workers.referee.comparison import unwritten
from workers.referee.comparison.correctness import DEFAULT_RULE
from workers.shims import call_errors, calls, weights
from workers.shims.problem import seeding


def _mailbox() -> mmap.mmap:
    return mmap.mmap(-1, control_channel.MAILBOX_BYTES)


def test_a_long_text_keeps_its_beginning_and_its_end() -> None:
    box = _mailbox()
    text = "first\n" + "x" * 100_000 + "\nlast"
    kept = control_channel.get_text(box, control_channel.put_text(box, text))
    assert kept.startswith("first\n")
    assert kept.endswith("\nlast")
    assert "bytes left out" in kept
    assert len(kept.encode()) <= control_channel.TEXT_BYTES
    assert control_channel.get_text(box, control_channel.put_text(box, "short")) == "short"


@pytest.mark.parametrize(
    ("source", "hinted"),
    [
        ("Here is the kernel:\n```python\nx = 1\n```\n", True),
        ("```\nx = 1\n```\n", True),
        ('x = """\n   ```\n"""\ny = = 1\n', False),
    ],
)
def test_a_source_with_markdown_fences_is_told_so(
    tmp_path: Path, source: str, hinted: bool
) -> None:
    path = tmp_path / "candidate.py"
    path.write_text(source)
    with pytest.raises(SyntaxError) as caught:
        compile(source, path, "exec")
    summary = call_errors.explain(caught.value).partition("\n")[0]
    assert ("send the code between them" in summary) is hinted
    assert "candidate.py, line" in summary


def test_the_first_errors_of_a_compiler_come_first() -> None:
    lines = [
        f'main.cu({number}): error: identifier "foo{number}" is undefined' for number in range(400)
    ]
    log = (
        "Error building extension 'kernel': [1/2] /usr/bin/nvcc -c main.cu\nmain.cu(1): warning:"
        " unused\n"
    )
    summary, _, rest = call_errors.explain(RuntimeError(log + "\n".join(lines))).partition("\n")
    assert summary == 'RuntimeError: main.cu(0): error: identifier "foo0" is undefined'
    assert rest.splitlines()[:2] == [call_errors.FIRST_ERRORS, lines[0]]
    assert sum(line.startswith("main.cu(9)") for line in rest.splitlines()[:12]) == 1


def test_an_error_of_no_compiler_stays_as_it_is() -> None:
    summary, _, rest = call_errors.explain(ValueError("error: 3 is no size\nof a block")).partition(
        "\n"
    )
    assert summary == "ValueError: error: 3 is no size of a block"
    assert call_errors.FIRST_ERRORS not in rest


KERNEL = """def kernel(a, b):
    x = tl.cat(a, b, axis=0)
    helper(x)
"""


def _refused(line: int, reason: str | None) -> CompilationError:
    return CompilationError(KERNEL, SimpleNamespace(lineno=line, col_offset=4), reason)


def test_the_reason_of_tritons_compiler_comes_before_the_source() -> None:
    summary, _, rest = call_errors.explain(
        _refused(2, "cat() got an unexpected keyword\nargument 'axis'")
    ).partition("\n")
    assert (
        summary == "CompilationError: cat() got an unexpected keyword argument 'axis' (at 2:4: x ="
        " tl.cat(a, b, axis=0))"
    )
    assert "def kernel(a, b):" in rest


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        (_refused(1, "no such type"), "no such type (at 1:4: def kernel(a, b):)"),
        (NameError("no tl"), "NameError: no tl (at 3:4: helper(x))"),
        (None, ""),
    ],
)
def test_the_reason_of_an_error_in_a_nested_function_is_its_cause(
    cause: BaseException | None, said: str
) -> None:
    error = _refused(3, None)
    error.__cause__ = cause
    summary, _, _ = call_errors.explain(error).partition("\n")
    assert summary == f"CompilationError: {said or str(error).replace(chr(10), ' ')}"


def test_cudas_advice_is_left_to_the_log() -> None:
    said = "CUDA error: an illegal memory access was encountered"
    advice = (
        "Search for `cudaErrorIllegalAddress' in https://docs.nvidia.com for more"
        " information.\nCUDA kernel errors"
    )
    summary, _, rest = call_errors.explain(RuntimeError(f"{said}\n{advice}")).partition("\n")
    assert summary == f"RuntimeError: {said}"
    assert advice in rest


class Packs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3, 2))
        self.packed = torch.zeros(2, 3)
        self.register_load_state_dict_post_hook(
            lambda module, _: setattr(module, "packed", module.weight.detach().T)
        )


def test_hooks_of_a_state_dict_are_run() -> None:
    model, weight = Packs(), torch.randn(3, 2)
    weights.load(model, {"weight": weight, "other": torch.randn(4)})
    assert torch.equal(model.packed, weight.T)


def test_a_hook_that_packs_what_has_another_size_gets_the_rest() -> None:
    model = Packs()
    weights.load(model, {"weight": torch.randn(7, 2)})
    assert torch.equal(model.packed, torch.zeros(2, 3))


def test_a_plain_model_is_not_loaded_into() -> None:
    model = nn.Linear(2, 2)
    before = model.weight.detach().clone()
    weights.load(model, {"weight": torch.randn(2, 2)})
    assert torch.equal(model.weight, before), "its weights are copied in place"


def test_weights_without_a_place_are_named_with_the_reason() -> None:
    model = nn.Linear(3, 2)
    theirs = {
        "weight": torch.zeros(2, 3).to(torch.float8_e4m3fn),
        "bias": torch.zeros(3),
        "scale": torch.zeros(1),
    }
    said = weights.unmatched(model, theirs, set())
    assert (
        said == "weight (expected float8_e4m3fn, got float32), bias (expected shape [3], got [2]), "
        "scale (no parameter or buffer of this name)"
    )
    assert weights.unmatched(model, {"weight": torch.zeros(2, 3)}, {"weight"}) == ""


def test_a_weight_that_was_drawn_alike_under_another_name_has_a_place() -> None:
    model = nn.Linear(3, 2)
    alike = {"conv.weight": model.weight.detach().clone()}
    assert weights.unmatched(model, alike, set()) == ""
    assert weights.unmatched(model, {"conv.weight": torch.ones(2, 3)}, set())
    model.codes = nn.Buffer(torch.ones(4).to(torch.float8_e4m3fn))
    assert weights.unmatched(model, {"table": model.codes.clone()}, set()) == ""
    # Its own name comes first: what shares a name with the problem stands for nothing else.
    assert weights.unmatched(model, alike, {"weight"})


CHECK = OutputCheck(
    index=0,
    dtype="float32",
    shape=(4, 8),
    ok=False,
    rel_l2=3e-4,
    rel_l2_limit=1e-5,
    max_norm=2e-3,
    max_norm_limit=1e-4,
    nonfinite_mismatches=0,
    unwritten=0,
    stale_call=None,
)


def test_a_wrong_answer_names_what_is_unusual_about_its_call() -> None:
    trial = Trial(call=11, seed="", ok=False, outputs=(CHECK,))
    error = "output 0 (float32, [4, 8]): relative error 3.00e-04 (at most 1.00e-05)"
    said = wrong_output.describe(trial, DEFAULT_RULE)
    assert said.startswith(f"call 11, {error}")
    assert "overwritten" not in said
    said = wrong_output.describe(
        replace(trial, variant="redrawn", inputs_changed=(0, 2)), DEFAULT_RULE
    )
    assert said.startswith(f"call 11 on inputs with other values than get_inputs() gives, {error}")
    assert said.endswith("; it has overwritten input 0, 2")


@pytest.mark.parametrize(("rel_l2", "named"), [(3e-4, False), (2e-3, True), (None, True)])
def test_weights_without_a_place_do_not_explain_rounding(rel_l2: float | None, named: bool) -> None:
    trial = Trial(
        call=0, seed="", ok=False, outputs=(replace(CHECK, rel_l2=rel_l2), replace(CHECK, ok=True))
    )
    assert (
        "conv.weight" in wrong_output.lacking_weights(trial, "conv.weight (no parameter)")
    ) is named
    assert wrong_output.lacking_weights(trial, "") == ""


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int64])
def test_elements_that_hold_two_poisons_in_turn_were_never_written(dtype: torch.dtype) -> None:
    first = torch.randint(0, 256, (4096 * dtype.itemsize,), dtype=torch.uint8)
    masks = []
    for poison in (first, ~first):
        got = torch.randn(4096).to(dtype)
        got.view(torch.uint8)[: 100 * dtype.itemsize] = poison[: 100 * dtype.itemsize]
        masks.append(unwritten.untouched(got, poison.view(dtype)))
    assert int((masks[0] & masks[1]).sum()) == 100


SEEDED = """
import random
import numpy
import torch
from torch import manual_seed
def draw():
    torch.manual_seed(0), manual_seed(1), numpy.random.seed(0), random.seed(0)
    own = torch.Generator().manual_seed(0)
    found = [torch.randn(3), torch.rand(3, generator=own)]
    own = [random.Random(0).random(), numpy.random.RandomState(0).rand()]
    numbers = [numpy.random.rand(), random.random(), *own]
    return [*torch.cat(found).tolist(), *numbers, numpy.random.default_rng(0).random()]
"""


def test_a_problem_s_own_seeds_are_without_effect() -> None:
    problem = ModuleType("problem")
    exec(SEEDED, problem.__dict__)

    def drawn(seed: bytes) -> list[float]:
        calls.seed_everything(seed, calls.DRAWING)
        with seeding.unseeded(problem):
            found: list[float] = problem.draw()
        return found

    one, other = drawn(b"1" * 8), drawn(b"2" * 8)
    assert all(mine != theirs for mine, theirs in zip(one, other, strict=True))
    assert drawn(b"1" * 8) == one
    assert problem.draw() == problem.draw(), "and afterwards they have it again"


@pytest.mark.parametrize(
    ("call", "rel_l2", "source", "named"),
    [
        (0, 486.0, b"@triton.autotune(...)\n tl.atomic_add(p, x)", True),
        (0, None, b"@triton.autotune(...)\n tl.atomic_add(p, x)", True),
        (1, 486.0, b"@triton.autotune(...)\n tl.atomic_add(p, x)", False),
        (0, 3e-4, b"@triton.autotune(...)\n tl.atomic_add(p, x)", False),
        (0, 486.0, b"@triton.autotune(reset_to_zero=['p'])\n tl.atomic_add(p, x)", False),
        (0, 486.0, b"@triton.jit\n tl.atomic_add(p, x)", False),
    ],
)
def test_a_sum_that_the_autotuner_repeats_is_named(
    call: int, rel_l2: float | None, source: bytes, named: bool
) -> None:
    trial = Trial(call=call, seed="", ok=False, outputs=(replace(CHECK, rel_l2=rel_l2),))
    assert ("reset_to_zero" in wrong_output.tuned_while_adding(trial, source)) is named


@pytest.mark.parametrize(
    ("rel_l2", "dtype", "source", "named"),
    [
        (2.1e-5, "float32", b"acc += tl.dot(a, b)", True),
        (2.1e-5, "float32", b"acc += tl.dot(a, b, allow_tf32=True)", True),
        (2.1e-5, "float32", b"acc += tl.dot(a, b, input_precision='ieee')", False),
        (2.1e-5, "float32", b"acc += tl.dot(a, b, allow_tf32 = False)", False),
        (2.1e-5, "float32", b"acc += tl.dot(a.to(tl.float16), b, allow_tf32=False)", True),
        (2.1e-5, "float32", b"acc += tl.sum(a * b)", False),
        (7.7e-4, "float32", b"acc += tl.dot(a, b)", False),  # its size tells: NARROW
        (2.1e-5, "float64", b"acc += tl.dot(a, b)", False),
        (None, "float32", b"acc += tl.dot(a, b)", False),
    ],
)
def test_products_whose_roundings_cancel_are_named(
    rel_l2: float | None, dtype: str, source: bytes, named: bool
) -> None:
    wrong = replace(CHECK, rel_l2=rel_l2, dtype=dtype)
    trial = Trial(call=0, seed="", ok=False, outputs=(wrong,))
    assert ("products of tl.dot" in wrong_output.of_tf32(trial, source)) is named


NORM = b"self.norm = nn.BatchNorm2d(8)"


@pytest.mark.parametrize(
    ("rel_l2", "source", "reference", "named"),
    [
        (0.95, b"y = norm(x, self.bn.running_mean)", NORM, True),
        (1e-5, b"y = norm(x, self.bn.running_mean)", NORM, False),
        (None, b"y = norm(x, self.bn.running_mean)", NORM, False),
        (0.95, b"y = norm(x, x.mean(0))", NORM, False),
        (0.95, b"y = norm(x, self.bn.running_mean)", b"nn.LayerNorm(8)", False),
        (0.95, b"y = norm(x, self.bn.running_mean)", NORM + b"\nself.eval()", False),
    ],
)
def test_running_statistics_that_the_reference_does_not_read_are_named(
    rel_l2: float | None, source: bytes, reference: bytes, named: bool
) -> None:
    trial = Trial(call=0, seed="", ok=False, outputs=(replace(CHECK, rel_l2=rel_l2),))
    told = wrong_output.of_batch_statistics(trial, source, reference)
    assert ("mean and variance of each batch" in told) is named
