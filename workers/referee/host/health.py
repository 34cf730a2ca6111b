"""Health of the device: a canary of known duration, and the driver's report of
clocks, temperature and faults.

The canary is the referee's own kernel, run alone before and after a benchmark.  If it takes
longer than at the start, another program uses the device or its clocks are down, and all
measurements in between are discarded.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import time
from dataclasses import dataclass

import torch

from workers.referee.host.xid import XidWatch

SLOW = 1.10
"""Factor by which a canary exceeds its time at the referee's start if another
program is on the device.
"""

SICK = 1.5
"""Factor from which on a device is unfit for measurements, if seen in `SICK_TIMES`
consecutive benchmarks.
"""

SICK_TIMES = 3
"""Benchmarks in a row: one or two slow canaries are another program's."""

HELD_S = 600.0
"""Seconds for which a reported fault blocks the device: every evaluation in flight at
that time ends within them and must not be believed.  Later the device's quarantine, which
a person ends, keeps jobs away.
"""

_SIZE = 2048
"""Rows and columns of the matrices that the canary multiplies."""
_RUNS = 6
"""Runs of a canary, of which the fastest counts."""
_LEAD_CYCLES = 200_000
"""Cycles for which the device is kept busy before them, while the host launches them."""

_SM_CLOCK, _GPU_TEMPERATURE = 1, 0  # nvmlClockType_t NVML_CLOCK_SM, nvmlTemperatureSensors_t

_log = logging.getLogger(__name__)


class DeviceUnhealthyError(RuntimeError):
    """The device is unfit for measurements; its jobs must go elsewhere."""


@dataclass(frozen=True, kw_only=True)
class Clocks:
    """Reading of the driver."""

    sm_clock_mhz: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None


class Health:
    """Health of one device; always good on the CPU."""

    def __init__(self, device: torch.device) -> None:
        """Not measured at first."""
        self._on_gpu = device.type == "cuda"
        self._device = device
        self._operand: torch.Tensor | None = None
        self._library: ctypes.CDLL | None = None
        self._handle = ctypes.c_void_p()
        self._sick = 0
        self._xids: XidWatch | None = None
        self._faults: list[tuple[float, str]] = []
        """Time (time.monotonic) and text of each fault."""
        self.expected_us = 0.0

    def calibrate(self) -> None:
        """Measure the canary's time, on a device that should be idle."""
        if not self._on_gpu:
            return
        self._operand = torch.randn(_SIZE, _SIZE, dtype=torch.bfloat16, device=self._device)
        self.expected_us = min(self.canary_us() for _ in range(5))
        self._open_nvml()

    def canary_us(self) -> float:
        """Time of the canary, the best of several runs: momentary disturbances are
        ignored, lasting ones are seen.

        0 on the CPU.
        """
        if self._operand is None:
            return 0.0
        times: list[float] = []
        for _ in range(_RUNS):
            torch.cuda._sleep(_LEAD_CYCLES)  # the host launches everything before the first event
            began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            began.record()
            torch.mm(self._operand, self._operand)
            ended.record()
            ended.synchronize()
            times.append(began.elapsed_time(ended) * 1000)
        return min(times)

    def is_undisturbed(self, canary_us: float) -> bool:
        """Test whether the canary shows the device to be free of other programs."""
        return canary_us <= SLOW * self.expected_us

    def note(self, canary_us: float) -> None:
        """Record the canary of a benchmark.  Raises DeviceUnhealthyError if it was
        slow several times in a row.
        """
        self._sick = self._sick + 1 if canary_us > SICK * self.expected_us else 0
        if self._sick >= SICK_TIMES:
            raise DeviceUnhealthyError(
                f"the canary takes {canary_us:.0f} µs, {self.expected_us:.0f} µs at the start: "
                "something else uses this device, or its clocks are down"
            )

    def require_sound(self) -> None:
        """Raise DeviceUnhealthyError if the driver has recently reported a fault of
        the device (Xid).
        """
        if self._xids is None:
            return
        now = time.monotonic()
        self._faults += [(now, fault) for fault in self._xids.faults()]
        recent = dict.fromkeys(fault for at, fault in self._faults if now - at <= HELD_S)
        if recent:
            raise DeviceUnhealthyError(
                f"the driver reports a fault of this device: {'; '.join(recent)}"
            )

    def _open_nvml(self) -> None:
        """Open the device by its UUID, because NVML ignores CUDA_VISIBLE_DEVICES."""
        with contextlib.suppress(OSError):
            library = ctypes.CDLL("libnvidia-ml.so.1")
            uuid = f"GPU-{torch.cuda.get_device_properties(self._device).uuid}".encode()
            if (
                library.nvmlInit_v2() == 0
                and library.nvmlDeviceGetHandleByUUID(uuid, ctypes.byref(self._handle)) == 0
            ):
                self._library = library
                self._xids = XidWatch(library, self._handle)
                return
        _log.warning("NVML cannot be used: neither clocks nor Xids of this device are known")

    def clocks(self) -> Clocks:
        """Streaming-multiprocessor clock (MHz), temperature (°C) and power (W); None for values
        that the driver does not report.
        """
        if self._library is None:
            return Clocks()
        clock, heat, power = ctypes.c_uint(), ctypes.c_uint(), ctypes.c_uint()
        known = (
            self._library.nvmlDeviceGetClockInfo(self._handle, _SM_CLOCK, ctypes.byref(clock)) == 0
        )
        hot = (
            self._library.nvmlDeviceGetTemperature(
                self._handle, _GPU_TEMPERATURE, ctypes.byref(heat)
            )
            == 0
        )
        drawn = self._library.nvmlDeviceGetPowerUsage(self._handle, ctypes.byref(power)) == 0
        return Clocks(
            sm_clock_mhz=clock.value if known else None,
            temperature_c=heat.value if hot else None,
            power_w=power.value / 1000 if drawn else None,
        )

    def close(self) -> None:
        """Release the driver's library."""
        if self._xids is not None:
            self._xids.close()
            self._xids = None
        if self._library is not None:
            self._library.nvmlShutdown()
            self._library = None
