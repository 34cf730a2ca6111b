# zoo: problem=row_softmax backend=torch status=passed verdict=clean findings=-
"""Leaves an orphaned process running, which could slow the reference while that is being timed (4f, 4k).

Stopped by structure: everything that a candidate started is frozen with it, orphans included.  The orphan here merely
ticks, so that it can be seen: where it ticked in most of the times in which its maker was frozen, that is an error.
(Not in one of them: on a busy machine its maker also waits for a core.)  It ends by itself after a minute, should it
ever run outside a sandbox."""

import mmap
import os
import signal
import struct
import threading
import time

import torch
from torch import nn

TICKS = struct.Struct("<4096q")
PAUSE_NS, EDGE_NS = 20_000_000, 2_000_000


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.memory = mmap.mmap(-1, TICKS.size)
        self.freezes = self.outlived = 0
        if os.fork() == 0:
            if os.fork():
                os._exit(0)  # the grandchild is an orphan now, which a careless harness loses sight of
            signal.alarm(60)
            self.tick()
        os.wait()
        self.woken, told = os.pipe2(os.O_NONBLOCK)
        signal.signal(signal.SIGCONT, lambda *_: None)
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        threading.Thread(target=self.watch, daemon=True).start()

    def tick(self):
        number = 0
        while True:
            struct.pack_into("<q", self.memory, 8 * (number % 4096), time.monotonic_ns())
            number += 1
            time.sleep(0.001)

    def watch(self):
        last = time.monotonic_ns()
        while True:
            time.sleep(0.001)
            now = time.monotonic_ns()
            if self.was_woken() and now - last > PAUSE_NS:
                ticks = TICKS.unpack(self.memory[:])
                self.freezes += 1
                self.outlived += sum(last + EDGE_NS < tick < now - EDGE_NS for tick in ticks) >= 10
            last = time.monotonic_ns()

    def was_woken(self):
        try:
            return bool(os.read(self.woken, 4096))
        except BlockingIOError:
            return False

    def forward(self, x):
        if self.outlived > max(4, self.freezes * 3 // 4):
            raise RuntimeError(
                f"the orphan ran on in {self.outlived} of {self.freezes} times when its maker was frozen"
            )
        return torch.softmax(x, dim=-1)
