"""Values that a launch wrote, kept and replayed: on the host or on the device, for
every type of element.
"""

import pytest
import torch

from workers.backends.recording import written_values

TYPES = (
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.bool,
    torch.uint8,
    torch.int16,
    torch.int64,
    torch.uint32,
    torch.complex64,
    torch.complex128,
)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(torch.uint8)


@pytest.mark.parametrize("on_host", [True, False])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_only_the_elements_that_a_launch_changed_are_written_again(
    dtype: torch.dtype, on_host: bool
) -> None:
    target = torch.zeros(3, 4).to(dtype)
    before = written_values.copies([target], on_host=on_host)
    target[1] = torch.ones(4).to(dtype)
    written = written_values.compared(before, [target])
    target[1] = 0
    target[2] = torch.ones(4).to(dtype)
    written_values.replay(written, [target])
    assert torch.equal(bits(target[1:]), bits(torch.ones(2, 4).to(dtype)))
    assert not bits(target[:1]).any()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_changed_elements_are_turned_and_others_stay(dtype: torch.dtype) -> None:
    values = (torch.arange(8) % 2).reshape(4, 2).t().to(dtype)
    changed = torch.tensor([[False, True, True, True], [True, True, False, False]])
    [found] = written_values.turned([written_values.Written(True, changed, values)])
    kept = values.to(torch.complex128)
    kept[changed] = kept[changed].roll(2)
    assert torch.equal(found.values.to(torch.complex128), kept)
    assert found.values.dtype == dtype


def test_an_expanded_and_a_transposed_tensor_are_kept_in_their_shape() -> None:
    shared, turned = torch.zeros(1, 3).expand(2, 3), torch.zeros(3, 2).t()
    before = written_values.copies([shared, turned], on_host=True)
    turned[0] = 5
    written = written_values.compared(before, [shared, turned])
    turned[0] = 0
    written_values.replay(written[1:], [turned])
    assert turned.tolist() == [[5, 5, 5], [0, 0, 0]]
    assert written[0].values.shape == shared.shape
    assert not written[0].is_changed
    assert not written[0].changed.any()


def test_tensors_of_another_shape_or_type_are_left_alone() -> None:
    written = [written_values.Written(True, torch.ones(2, dtype=torch.bool), torch.ones(2))]
    for other in (torch.zeros(3), torch.zeros(2, dtype=torch.float64)):
        written_values.replay(written, [other])
        assert not other.any()
