"""A thread that extends a job's lease while the device works, and stops work that
has become pointless.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from types import TracebackType

from app.broker import MARGIN_S
from app.domain.device import DeviceId, DeviceState
from app.store import devices, leases
from app.store.database import Database, DatabaseUnavailableError

_log = logging.getLogger(__name__)


class LeaseExtension:
    """Extends a lease while the context is open.  Calls `stop_work` if the job is
    cancelled, has passed to another worker, or its device is quarantined; ends the
    process if even that does not help.
    """

    def __init__(
        self,
        database: Database,
        lease: leases.Lease,
        device: DeviceId,
        lease_s: float,
        stop_work: Callable[[], None],
        more_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`more_s`: seconds that the job may take beyond its limits, as known so far."""
        self._database = database
        self._lease = lease
        self._device = device
        self._lease_s = lease_s
        self._stop_work = stop_work
        self._more_s = more_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self.lost = False
        """True if another worker may have the job."""
        self.quarantined = False
        """True if the device's results must not be trusted."""

    def __enter__(self) -> LeaseExtension:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the thread.  No `stop_work` follows: the client's next job is another one."""
        self._over.set()
        self._thread.join()

    def _beat(self) -> None:
        last = time.monotonic() + self._lease.job.options.patience_s + MARGIN_S
        while not self._over.wait(self._lease_s / 4):
            if time.monotonic() > last + self._more_s():
                _log.critical(
                    "job %s: neither done nor given up: ending this process", self._lease.job.job_id
                )
                os._exit(os.EX_TEMPFAIL)  # the referee dies with it, and the lease lapses
            try:
                with self._database.begin() as connection:
                    pulse = leases.extend_lease(connection, self._lease, self._lease_s)
                    state = devices.state_of(connection, self._device)
            except DatabaseUnavailableError as error:
                _log.warning("job %s: lease not extended: %s", self._lease.job.job_id, error)
                continue
            self.lost = not pulse.held
            self.quarantined = state is DeviceState.QUARANTINED
            if self.lost or self.quarantined or pulse.cancel_requested:
                self._stop_work()
