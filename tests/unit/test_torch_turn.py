"""Turn to use torch: one thread at a time on a GPU, any number on the CPU device."""

import threading

import pytest
import torch

from workers.referee.host.torch_turn import torch_turn

LIMIT_S = 10.0


def _most_at_once(device: torch.device, threads: int = 3) -> int:
    """Largest number of threads that had the turn at a time, if each keeps it until all others had a chance."""
    inside, most, lock = 0, 0, threading.Lock()
    tried = threading.Barrier(threads)

    def take() -> None:
        nonlocal inside, most
        tried.wait(LIMIT_S)
        with torch_turn(device), torch_turn(device):  # a thread that has the turn takes it again
            with lock:
                inside += 1
                most = max(most, inside)
            threading.Event().wait(0.05)
            with lock:
                inside -= 1

    running = [threading.Thread(target=take) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(LIMIT_S)
        assert not thread.is_alive()
    return most


@pytest.mark.parametrize(("device", "most"), [("cuda", 1), ("cpu", 3)])
def test_one_thread_at_a_time_has_the_turn_of_a_gpu(device: str, most: int) -> None:
    assert _most_at_once(torch.device(device)) == most
