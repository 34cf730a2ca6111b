"""Products of a candidate that count as the reference's, and those that do not."""

import pytest

from workers.protocol.launch_records import Launch
from workers.referee.probes import shared_products


def _launch(number: int, flops: int, ns: int = 10, origin: str = "torch") -> Launch:
    return Launch(name="gemm", origin=origin, duration_ns=ns, product_flops=flops, operator=number)


LOSS = Launch(name="loss", origin="triton", duration_ns=10)
SOFTMAX = Launch(name="softmax", origin="torch", duration_ns=10)


@pytest.mark.parametrize(
    ("products", "theirs", "shared"),
    [
        ([100], [100], 1),
        ([100, 1], [100, 1], 2),
        ([50, 50], [100], 2),  # split
        ([40, 40, 20], [100], 3),
        ([100, 100], [100], 1),  # one more than the reference makes
        ([100, 30], [100], 1),
        ([100], [50, 50], 0),  # merged
        ([100, 50], [100, 25, 25], 0),
        ([50], [100], 0),  # less arithmetic
        ([], [100], 0),
        ([200], [100], 0),
    ],
)
def test_a_product_is_shared_as_far_as_the_reference_makes_it(
    products: list[int], theirs: list[int], shared: int
) -> None:
    seen = [LOSS, SOFTMAX, *(_launch(number, flops) for number, flops in enumerate(products))]
    assert shared_products.share(seen, theirs) == pytest.approx(10 * shared / (10 * len(seen)))


def test_all_launches_of_one_product_count() -> None:
    seen = [LOSS, _launch(3, 100, 20), _launch(3, 100, 10), _launch(4, 0, 60)]
    assert shared_products.share(seen, [100]) == pytest.approx(0.3)


def test_the_candidates_own_kernels_are_no_library_product() -> None:
    assert shared_products.share([_launch(1, 100, origin="triton")], [100]) == 0


def test_on_the_cpu_device_work_counts_and_not_time() -> None:
    seen = [LOSS._replace(work_bytes=1), _launch(0, 100, 1000)._replace(work_bytes=3)]
    assert shared_products.share(seen, [100]) == pytest.approx(0.75)


@pytest.mark.parametrize(("seen", "theirs"), [([LOSS], []), ([], [100])])
def test_nothing_is_said_without_products_or_kernels(seen: list[Launch], theirs: list[int]) -> None:
    assert shared_products.share(seen, theirs) is None


def test_transfers_take_no_time_of_a_kernel() -> None:
    transfer = Launch(name="Memcpy DtoH", origin="transfer", duration_ns=1000)
    assert shared_products.share([LOSS, transfer, _launch(0, 9)], [9]) == pytest.approx(0.5)
