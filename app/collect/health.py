"""COLLECT: endpoints as they are now: workers, limit of calls in flight, waiting
calls, warnings of the last probe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from app.broker import BrokerUnavailableError
from app.domain.collection.call import EndpointConfig
from app.endpoints.rate_limit import Limiter, Standing
from app.store.collection import calls, endpoints, trees, workers
from app.store.collection.endpoints import Endpoint
from app.store.collection.workers import EndpointWorker
from app.store.postgres.database import Connection


@dataclass(frozen=True, kw_only=True)
class Health:
    """Health of one endpoint."""

    config: EndpointConfig
    probed_at: datetime | None
    warnings: tuple[str, ...]
    """Warnings of the last probe."""
    workers: tuple[EndpointWorker, ...]
    """Workers that are online."""
    due: int
    """Calls and decisions that wait for a worker."""
    standing: Standing | None
    """The shared limit; None where Redis is away."""

    @property
    def served(self) -> bool:
        """True if a worker with the key is online."""
        return any(each.has_key for each in self.workers)


def look(
    connection: Connection, broker_url: str | None, names: Sequence[str] | None = None
) -> list[Health]:
    """Health of the stored endpoints with these names, or of all."""
    stored = [
        each for each in endpoints.listed(connection) if names is None or each.config.name in names
    ]
    alive = workers.online(connection) if stored else []
    return [_look(connection, each, alive, broker_url) for each in stored]


def _look(
    connection: Connection,
    stored: Endpoint,
    alive: Sequence[EndpointWorker],
    broker_url: str | None,
) -> Health:
    name = stored.config.name
    return Health(
        config=stored.config,
        probed_at=stored.probed_at,
        warnings=tuple(str(one) for one in stored.config.capabilities.get("warnings", ())),
        workers=tuple(each for each in alive if each.endpoint == name),
        due=calls.due(connection, name) + trees.due(connection, name),
        standing=None if broker_url is None else _standing(stored.config, broker_url),
    )


def _standing(config: EndpointConfig, broker_url: str) -> Standing | None:
    limiter = Limiter(config, broker_url)
    try:
        return limiter.standing()
    except BrokerUnavailableError:
        return None
    finally:
        limiter.close()
