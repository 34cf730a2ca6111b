"""Xids, the driver's error reports on the device, polled without waiting (NVML events).

A candidate can cause many Xids: an invalid access is a page fault, and a process killed in a kernel
leaves a channel to be cleaned up.  These say nothing about the device and must not: otherwise a
candidate could put every device out of service.  Only faults that no program should be able to
cause count against the device.

Source: NVIDIA, "Analyzing Xid Errors with the Xid Catalog" (docs.nvidia.com/deploy/xid-errors), by
the recommended action: restart the application, or reset the GPU and beyond; and the list of
application errors in NVIDIA's k8s-device-plugin (internal/rm/health.go).
"""

from __future__ import annotations

import ctypes
import logging
import threading
from typing import Any

APPLICATION = frozenset({8, 11, 13, 25, 31, 32, 43, 45, 68, 69, 80, 109})
"""Xids that programs cause: exceptions, page faults, bad commands, preemptive clean-up.  109, a
context switch that took too long, may need a reset, but a kernel without an end is enough to cause
it; the canary shows its remains.
"""

DEVICE = {
    46: "the GPU stopped processing (timeout)",
    48: "double-bit ECC error",
    54: "auxiliary power is missing, clocks are reduced",
    62: "a micro-controller of the GPU halted",
    63: "memory rows are being remapped",
    64: "memory rows could not be remapped",
    74: "NVLink error",
    79: "the GPU has fallen off the bus",
    92: "many single-bit ECC errors",
    94: "contained uncorrectable memory error",
    95: "uncontained uncorrectable memory error",
    110: "security fault",
    119: "the GPU's system processor (GSP) does not answer",
    120: "error of the GPU's system processor (GSP)",
    136: "NVLink could not be trained",
    140: "unrecovered ECC error",
    143: "the GPU could not be initialised",
    155: "NVLink error (software-defined)",
    156: "parts of the GPU are being retired",
    158: "fatal timeout of the GPU",
    171: "uncorrectable error of the GPU's memory",
    172: "uncorrectable error of the GPU's caches",
}
"""Xids of hardware faults, with their meaning.  After 63, 92 and 94 NVIDIA would let
programs continue for the time being; a device that repairs its memory is not
comparable with itself before.
"""

CRITICAL_ERROR = 0x8
"""nvmlEventTypeXidCriticalError: every Xid."""

_SUCCESS, _TIMEOUT, _GPU_IS_LOST = 0, 10, 15  # nvmlReturn_t

MOST = 1000
"""Events read at a time: a page fault in every thread of a kernel is one event; a
candidate may cause several.
"""

_log = logging.getLogger(__name__)


class EventData(ctypes.Structure):
    """nvmlEventData_t."""

    _fields_ = (
        ("device", ctypes.c_void_p),
        ("event_type", ctypes.c_ulonglong),
        ("event_data", ctypes.c_ulonglong),
        ("gpu_instance_id", ctypes.c_uint),
        ("compute_instance_id", ctypes.c_uint),
    )


class XidWatch:
    """Xids of one device from now on.  Thread-safe.

    If the driver does not report them, this is logged once, and none is ever found."""

    def __init__(self, library: Any, device: ctypes.c_void_p) -> None:
        """`library`: NVML, initialised; `device`: its handle."""
        self._library = library
        self._events = ctypes.c_void_p()
        self._lock = threading.Lock()
        self._unknown: set[int] = set()
        self._watching = self._register(device)

    def _register(self, device: ctypes.c_void_p) -> bool:
        if not hasattr(self._library, "nvmlEventSetWait_v2"):
            return self._give_up("this NVML is too old")
        supported = ctypes.c_ulonglong()
        code = self._library.nvmlDeviceGetSupportedEventTypes(device, ctypes.byref(supported))
        if code == _SUCCESS and not supported.value & CRITICAL_ERROR:
            return self._give_up("the device has no such events")
        if code == _SUCCESS:
            code = self._library.nvmlEventSetCreate(ctypes.byref(self._events))
        if code != _SUCCESS:
            return self._give_up(f"NVML answers with {code}")
        code = self._library.nvmlDeviceRegisterEvents(
            device, ctypes.c_ulonglong(CRITICAL_ERROR), self._events
        )
        if code != _SUCCESS:
            self._library.nvmlEventSetFree(self._events)
            return self._give_up(f"NVML answers with {code}")
        return True

    def _give_up(self, reason: str) -> bool:
        _log.warning("Xids of this device are not watched: %s", reason)
        return False

    def faults(self) -> list[str]:
        """Faults of the device since the last call, each with number and meaning.  Never waits."""
        with self._lock:
            return (
                [fault for number in self._numbers() if (fault := self._fault(number))]
                if self._watching
                else []
            )

    def _numbers(self) -> list[int]:
        """Numbers of new Xids; NVML's report of a lost device counts as one."""
        numbers: list[int] = []
        event = EventData()
        while len(numbers) < MOST:
            code = self._library.nvmlEventSetWait_v2(
                self._events, ctypes.byref(event), ctypes.c_uint(0)
            )
            if code == _TIMEOUT:
                break
            if code == _GPU_IS_LOST:
                return [*numbers, 79]
            if code != _SUCCESS:
                self._watching = self._give_up(f"NVML answers with {code}")
                self._library.nvmlEventSetFree(self._events)
                break
            if event.event_type == CRITICAL_ERROR:
                numbers.append(event.event_data)
        return numbers

    def _fault(self, number: int) -> str | None:
        if number in DEVICE:
            return f"Xid {number}: {DEVICE[number]}"
        if number not in APPLICATION and number not in self._unknown:
            self._unknown.add(number)
            _log.warning(
                "Xid %d is not held against the device: it is not known to be the hardware's",
                number,
            )
        return None

    def close(self) -> None:
        """Release the events."""
        with self._lock:
            if self._watching:
                self._library.nvmlEventSetFree(self._events)
                self._watching = False
