"""Xids that the driver reports, and their attribution, with a scripted library."""

import ctypes
import logging
from collections.abc import Iterator

import pytest
import torch

from workers.referee.host import health, xid
from workers.referee.host.health import DeviceUnhealthyError, Health
from workers.referee.host.xid import XidWatch

_SUCCESS, _NO_PERMISSION, _TIMEOUT, _LOST, _UNKNOWN = 0, 4, 10, 15, 999


class FakeNvml:
    """NVML with a list of Xids still to be told."""

    def __init__(
        self, *told: int, supported: int = 0x1F, register: int = _SUCCESS, end: int = _TIMEOUT
    ) -> None:
        self.told = list(told)
        self.supported = supported
        self.register = register
        self.end = end
        """Its answer when there is nothing more."""
        self.freed = 0
        self.waits: list[int] = []

    def nvmlDeviceGetSupportedEventTypes(self, device: object, types: object) -> int:  # noqa: N802
        types._obj.value = self.supported  # type: ignore[attr-defined]
        return _SUCCESS

    def nvmlEventSetCreate(self, events: object) -> int:  # noqa: N802
        events._obj.value = 7  # type: ignore[attr-defined]
        return _SUCCESS

    def nvmlDeviceRegisterEvents(  # noqa: N802
        self, device: object, types: ctypes.c_ulonglong, events: ctypes.c_void_p
    ) -> int:
        assert (types.value, events.value) == (xid.CRITICAL_ERROR, 7)
        return self.register

    def nvmlEventSetWait_v2(  # noqa: N802
        self, events: ctypes.c_void_p, data: object, wait_ms: ctypes.c_uint
    ) -> int:
        self.waits.append(wait_ms.value)
        if not self.told:
            return self.end
        data._obj.event_type, data._obj.event_data = xid.CRITICAL_ERROR, self.told.pop(0)  # type: ignore[attr-defined]
        return _SUCCESS

    def nvmlEventSetFree(self, events: object) -> int:  # noqa: N802
        self.freed += 1
        return _SUCCESS


def _watch(library: object) -> XidWatch:
    return XidWatch(library, ctypes.c_void_p(1))


def test_the_struct_is_that_of_the_driver() -> None:
    assert ctypes.sizeof(xid.EventData) == 32
    assert (xid.EventData.event_data.offset, xid.EventData.compute_instance_id.offset) == (16, 28)


def test_what_candidates_cause_is_not_held_against_the_device(
    caplog: pytest.LogCaptureFixture,
) -> None:
    library = FakeNvml(*sorted(xid.APPLICATION))
    assert _watch(library).faults() == []
    assert not library.told  # all were read
    assert not caplog.records  # and are not reported


@pytest.mark.parametrize("number", sorted(xid.DEVICE))
def test_what_is_the_hardwares_is_named(number: int) -> None:
    (fault,) = _watch(FakeNvml(31, number, 45)).faults()
    assert fault == f"Xid {number}: {xid.DEVICE[number]}"


def test_none_is_of_both_kinds() -> None:
    assert not xid.APPLICATION & set(xid.DEVICE)


def test_it_never_waits() -> None:
    library = FakeNvml(13, 48)
    _watch(library).faults()
    assert library.waits == [0, 0, 0]


def test_an_unknown_one_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    watch = _watch(FakeNvml(999, 999))
    assert watch.faults() == []
    assert [record.getMessage() for record in caplog.records] == [
        "Xid 999 is not held against the device: it is not known to be the hardware's"
    ]


def test_a_lost_gpu_has_fallen_off_the_bus() -> None:
    assert _watch(FakeNvml(13, end=_LOST)).faults() == ["Xid 79: the GPU has fallen off the bus"]


class OldNvml:
    """Without the functions of today."""


@pytest.mark.parametrize(
    ("library", "reason"),
    [
        (FakeNvml(48, supported=0x3), "the device has no such events"),
        (FakeNvml(48, register=_NO_PERMISSION), "NVML answers with 4"),
        (OldNvml(), "this NVML is too old"),
    ],
)
def test_where_it_is_not_supported_that_is_said_once(
    library: object, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        watch = _watch(library)
        assert watch.faults() == watch.faults() == []
        watch.close()
    assert [record.getMessage() for record in caplog.records] == [
        f"Xids of this device are not watched: {reason}"
    ]


def test_events_that_fail_later_are_given_up(caplog: pytest.LogCaptureFixture) -> None:
    library = FakeNvml(64, end=_UNKNOWN)
    watch = _watch(library)
    assert len(watch.faults()) == 1  # earlier ones are reported as well
    assert watch.faults() == []
    watch.close()
    assert library.freed == 1
    assert len(caplog.records) == 1


@pytest.fixture
def sound() -> Iterator[tuple[Health, FakeNvml]]:
    """The health of a device with that library."""
    library = FakeNvml()
    found = Health(torch.device("cpu"))
    found._xids = _watch(library)
    yield found, library
    found.close()
    assert library.freed == 1


def test_every_evaluation_in_flight_hears_of_a_fault(
    sound: tuple[Health, FakeNvml], monkeypatch: pytest.MonkeyPatch
) -> None:
    device, library = sound
    device.require_sound()
    library.told += [31, 95, 95]
    for _ in range(3):
        with pytest.raises(
            DeviceUnhealthyError, match=r"Xid 95: uncontained uncorrectable memory error$"
        ):
            device.require_sound()
    monkeypatch.setattr(health, "HELD_S", -1.0)  # so much later
    device.require_sound()


def test_the_cpu_has_no_driver() -> None:
    device = Health(torch.device("cpu"))
    device.calibrate()
    device.require_sound()
    device.close()
