"""Sources that ask whether their inputs are on a GPU."""

import pytest

from app.domain.source import device_branches


@pytest.mark.parametrize(
    ("source", "asks"),
    [
        ("if not x.is_cuda: y = torch.relu(x)", True),
        ("y = kernel(x) if x.device.type == 'cuda' else torch.relu(x)", True),
        ("if 'cuda' != x.device.type and n: pass", True),
        ("if torch.cuda.is_available(): pass", True),
        ("if x.device.type != DEVICE: pass", True),
        ("assert x.is_cuda", False),  # raises, and is attributed by its message
        ("device = 'cuda'", False),
        ("if x.device.type == 'cpu': y = torch.relu(x)", True),
        ("if x.is_cpu: y = torch.relu(x)", True),
        ("if x.device == torch.device('cpu'): y = torch.relu(x)", True),
        ("on_gpu = x.device.type == 'cuda' and y.is_contiguous()", True),
        ("def usable(x):\n  return not x.is_cpu", True),
        ("def usable(x):\n  return x.is_cuda", True),
        ("HAS_GPU: bool = torch.cuda.is_available()", True),
        ("return torch.autocast(x.device.type)", False),
        ("if x.device == y.device and torch.device('meta') != x.device: pass", False),
        ("if x.dtype == 'float': pass", False),
        ("if (", False),
        ("", False),
    ],
)
def test_conditions_on_the_device_are_found(source: str, asks: bool) -> None:
    assert device_branches.asks_for_a_gpu(source.encode()) is asks
