"""The library's work in a call on the CPU device, as it is modelled."""

import pickle
from collections.abc import Callable

import numpy
import pytest
import torch

from workers.backends.recording import library_work
from workers.backends.recording.library_work import Account, Work


def _operators(call: object) -> dict[str, int]:
    with Account() as account:
        call()  # type: ignore[operator]
    return {each.name: each.work_bytes for each in account.operators}


def test_an_operator_is_what_it_reads_and_writes() -> None:
    x = torch.ones(1000)
    assert _operators(lambda: x + x[:1].expand(1000)) == {"aten::add": 4000 + 4000 + 4000}
    assert _operators(lambda: x.mul_(2)) == {"aten::mul_": 4000 + 4000}
    assert _operators(lambda: torch.empty_like(x).copy_(x)) == {"aten::copy_": 4000 + 4000}


def test_looking_at_memory_in_another_way_is_no_work() -> None:
    x = torch.ones(10, 10)
    assert _operators(lambda: x.t()[1:].reshape(-1, 5).unsqueeze(0).detach()) in (
        {},
        {"aten::clone": 2 * 360},
    )
    assert _operators(lambda: torch.empty(10)) == {}


def test_products_count_by_their_arithmetic() -> None:
    a, b = torch.ones(400, 400), torch.ones(400, 400)
    assert _operators(lambda: a @ b) == {"aten::mm": 2 * 400**3 // library_work.FLOPS_PER_BYTE}


def test_memory_that_numpy_is_given_is_charged() -> None:
    x = torch.ones(1000)
    assert _operators(lambda: x.numpy()) == {"numpy": library_work.EXPORT_PASSES * 4000}
    assert isinstance(x.numpy().sum(), object)


library_work.watch_exports()
BOUND_EARLY = torch.Tensor.numpy
"""The method as bound by a candidate that is loaded later."""


@pytest.mark.parametrize(
    "export",
    [
        BOUND_EARLY,
        torch._C._to_dlpack,
        pickle.dumps,
        lambda x: torch.from_numpy(numpy.empty(1000, numpy.float32)).copy_(x),
        lambda x: torch.add(x, 1, out=torch.frombuffer(bytearray(4000), dtype=torch.float32)),
        lambda x: torch.empty(1000).share_memory_().copy_(x),
    ],
)
def test_elements_that_leave_torch_are_charged_on_every_way(
    export: Callable[[torch.Tensor], object],
) -> None:
    x = torch.ones(1000)
    assert _operators(lambda: export(x)).get("numpy", 0) >= library_work.EXPORT_PASSES * 4000


def test_memory_of_others_that_is_only_read_or_was_given_is_not_charged() -> None:
    table, x = torch.from_numpy(numpy.ones(1000, numpy.float32)), torch.ones(1000)
    assert "numpy" not in _operators(lambda: x.mul_(table))
    assert "numpy" not in _operators(
        lambda: torch.empty(0).set_(table.untyped_storage(), 0, (1000,), (1,))
    )
    with Account(arena=range(table.data_ptr(), table.data_ptr() + 4000)) as account:
        table.copy_(x)
    assert [each.name for each in account.operators] == ["aten::copy_"]


def test_a_kernel_that_writes_into_memory_of_others_hands_it_out() -> None:
    table, read = (torch.from_numpy(numpy.ones(1000, numpy.float32)) for _ in range(2))
    with (
        Account() as account,
        account.launching([table, read, torch.ones(1000), 3]),
        library_work.unseen(),
    ):
        table.add_(1)
    assert "numpy" in [each.name for each in account.operators]


def test_tensors_without_a_storage_have_a_size() -> None:
    x = torch.eye(10).to_sparse()
    assert _operators(lambda: torch.sparse.mm(x, torch.ones(10, 10)))


def test_what_the_interpreter_does_for_a_launch_is_nobodys() -> None:
    x = torch.ones(1000)

    def call() -> None:
        with library_work.unseen():
            x.clone()
        x.clone()

    with Account() as account:
        call()
    assert [each.name for each in account.operators] == ["aten::clone"]


def test_work_of_kernels_is_the_longer_of_both() -> None:
    before = Work().moved(100)
    assert before.moved(50).computed(20 * 80).since(before) == 80
    assert before.moved(50).since(before) == 50
