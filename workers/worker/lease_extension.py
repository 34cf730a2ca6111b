"""Extension of a job's lease, by a thread, while the device evaluates the job."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable

from app.broker import MARGIN_S
from app.domain.device import DeviceId, DeviceState
from app.store.postgres.database import Database, DatabaseUnavailableError
from app.store.queue import devices, leases

_log = logging.getLogger(__name__)


class LeaseExtension:
    """Context manager that extends a lease.  It calls `stop_work` if the job is cancelled, if
    another worker has it, or if the device is quarantined, and ends the process if the job exceeds
    all of its limits.
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
        """`more_s`: returns the seconds that the job may take beyond its limits."""
        self._database = database
        self._lease = lease
        self._device = device
        self._lease_s = lease_s
        self._stop_work = stop_work
        self._more_s = more_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._extend, name="lease", daemon=True)
        self.lost = False
        """True if another worker may have the job."""
        self.quarantined = False
        """True if the device's results must not be trusted."""

    def __enter__(self) -> LeaseExtension:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the thread.  No `stop_work` follows: the client's next job is another one."""
        self._over.set()
        self._thread.join()

    def _extend(self) -> None:
        last = time.monotonic() + self._lease.job.options.patience_s + MARGIN_S
        while not self._over.wait(self._lease_s / 4):
            if time.monotonic() > last + self._more_s():
                _log.critical(
                    "job %s: neither done nor stopped in time: ending this process",
                    self._lease.job.job_id,
                )
                os._exit(os.EX_TEMPFAIL)  # the referee dies with it, and the lease lapses
            try:
                with self._database.begin() as connection:
                    extended = leases.extend_lease(connection, self._lease, self._lease_s)
                    state = devices.state_of(connection, self._device)
            except DatabaseUnavailableError as error:
                _log.warning("job %s: lease not extended: %s", self._lease.job.job_id, error)
                continue
            self.lost = not extended.held
            self.quarantined = state is DeviceState.QUARANTINED
            if self.lost or self.quarantined or extended.cancel_requested:
                self._stop_work()
