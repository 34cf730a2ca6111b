"""Start-up check of the verl plug-in: `python -m workers.training.verl_check`.

verl hides errors of plug-ins in its debug log.  This imports verl as a trainer does, and says
whether the advantage estimators are registered; exit code 1 where they are not, with the reason.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import entry_points

from workers.training import verl_plugin

GROUP = "verl.plugins"


def problems() -> list[str]:
    """Reasons for which verl has no estimators of Assay; empty where it has them."""
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY

    missing = [name for name in verl_plugin.NAMES if name not in ADV_ESTIMATOR_REGISTRY]
    if not missing:
        return []
    found = [f"not registered: {', '.join(missing)}"]
    listed = [point for point in entry_points(group=GROUP) if point.name == "assay"]
    policy = os.environ.get("VERL_USE_EXTERNAL_PLUGINS", "auto")
    if not listed:
        found.append(f"no installed distribution has the entry point `assay` of the group {GROUP}")
    elif policy != "auto" and "assay" not in policy.split(","):
        found.append(
            f"VERL_USE_EXTERNAL_PLUGINS: expected auto or a list with assay, got {policy!r}"
        )
    for point in listed:
        try:
            point.load()
        except Exception as error:  # noqa: BLE001 (any error of a plug-in is the answer)
            found.append(f"{point.value}: {type(error).__name__}: {error}")
    return found


def main() -> int:
    """Print the differences found; 0 where there are none."""
    try:
        found = problems()
    except ImportError as error:
        found = [f"verl: {error}"]
    said = found or [
        f"verl has {len(verl_plugin.NAMES)} estimators of Assay: {', '.join(verl_plugin.NAMES)}"
    ]
    (sys.stderr if found else sys.stdout).write("\n".join(said) + "\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
