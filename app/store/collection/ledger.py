"""STORE: budgets.  One statement checks a cap and reserves, so that no two calls can
both take the rest.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import sqlalchemy as sa

from app.domain.collection.budgets import NAMES, Amounts, Caps, Fit, as_mapping, fits


def refusal(
    connection: sa.Connection,
    *,
    collection_id: UUID,
    rollout_id: UUID,
    rollout_caps: Caps,
    most: Amounts,
) -> tuple[Fit, str]:
    """The cap that forbids to reserve `most`, and whether it may be reserved later."""
    row = connection.execute(
        _SELECT, {"rollout_id": rollout_id, "collection_id": collection_id}
    ).one()
    collection_caps = Caps(**{name: getattr(row, f"cap_{name}") for name in NAMES})
    for level, prefix, upper in (
        ("rollout", "r_", rollout_caps),
        ("collection", "c_", collection_caps),
    ):
        fit, what = fits(
            upper, amounts(row, f"{prefix}spent"), amounts(row, f"{prefix}reserved"), most
        )
        if fit is not Fit.YES:
            return fit, f"{level}: {what}"
    return Fit.WAIT, ""  # there is room by now


def settle(
    connection: sa.Connection,
    *,
    collection_id: UUID,
    rollout_id: UUID,
    held: Amounts,
    spent: Amounts,
) -> None:
    """Release a reservation, and count the amounts spent.  It, too, is best the last statement."""
    if held == spent == NOTHING:
        return
    values = {f"held_{name}": value for name, value in as_mapping(held).items()} | as_mapping(spent)
    connection.execute(
        _SETTLE, {**values, "rollout_id": rollout_id, "collection_id": collection_id}
    )


def amounts(row: Any, prefix: str) -> Amounts:
    """The amounts in the columns `<prefix>_…` of a row."""
    return Amounts(
        calls=int(getattr(row, f"{prefix}_calls")),
        tokens=int(getattr(row, f"{prefix}_tokens")),
        usd=float(getattr(row, f"{prefix}_usd")),
        evaluations=int(getattr(row, f"{prefix}_evaluations")),
        gpu_s=float(getattr(row, f"{prefix}_gpu_s")),
    )


def _fits(name: str, cap: str) -> str:
    amount = f"CAST(:{name} AS {_KINDS[name]})"
    return f"({cap} IS NULL OR spent_{name} + reserved_{name} + {amount} <= {cap})"


def _reserved(name: str) -> str:
    return f"reserved_{name} = reserved_{name} + CAST(:{name} AS {_KINDS[name]})"


def _settled(name: str) -> str:
    kind = _KINDS[name]
    given_back = f"reserved_{name} = reserved_{name} - CAST(:held_{name} AS {kind})"
    return f"{given_back}, spent_{name} = spent_{name} + CAST(:{name} AS {kind})"


NOTHING = Amounts()
_KINDS = {name: "numeric" if name in ("usd", "gpu_s") else "bigint" for name in NAMES}
RESERVED = f"""rollout AS (
  UPDATE collection_rollouts SET {", ".join(map(_reserved, NAMES))}
  WHERE rollout_id = :rollout_id
    AND {" AND ".join(_fits(name, f"CAST(:cap_{name} AS {_KINDS[name]})") for name in NAMES)}
  RETURNING rollout_id
), reserved AS (
  UPDATE collections SET {", ".join(map(_reserved, NAMES))}
  WHERE collection_id = :collection_id AND EXISTS (SELECT FROM rollout)
    AND {" AND ".join(_fits(name, f"cap_{name}") for name in NAMES)}
  RETURNING collection_id
)"""  # noqa: S608 (made of our constants)
"""Named queries that hold amounts in both budgets; `reserved` has a row if both have room.  The
amount that the first one holds is to be rolled back if it has none.
"""
_SETTLE = sa.text(f"""
WITH rollout AS (
  UPDATE collection_rollouts SET {", ".join(map(_settled, NAMES))} WHERE rollout_id = :rollout_id
  RETURNING rollout_id
)
UPDATE collections SET {", ".join(map(_settled, NAMES))} WHERE collection_id = :collection_id
  AND EXISTS (SELECT FROM rollout)
""")  # noqa: S608
"""Without the condition PostgreSQL would lock the collection first, and then the rollout: a
decision, which has locked its rollout, would be a deadlock with it.
"""
_SELECT = sa.text(f"""
SELECT {
    ", ".join(
        f"r.{kind}_{name} AS r_{kind}_{name}" for kind in ("spent", "reserved") for name in NAMES
    )
},
  {
    ", ".join(
        f"c.{kind}_{name} AS c_{kind}_{name}" for kind in ("spent", "reserved") for name in NAMES
    )
},
  {", ".join(f"c.cap_{name}" for name in NAMES)}
FROM collection_rollouts r JOIN collections c USING (collection_id) WHERE r.rollout_id = :rollout_id
""")  # noqa: S608
