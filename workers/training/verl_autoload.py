"""Registers the estimators of verl_plugin when imported.

Entry point of the group `verl.plugins`, which verl ≥ 0.9 loads by itself; or set
VERL_USE_EXTERNAL_MODULES=workers.training.verl_autoload.

verl hides errors of plug-ins in its debug log, so a failure is logged here as an error, too; a
training that names an estimator which is not registered ends with verl's own error.
"""

from __future__ import annotations

import logging

from workers.training import verl_plugin

_log = logging.getLogger(__name__)

try:
    NAMES = verl_plugin.register()
except Exception:
    _log.exception("the advantage estimators %s* were not registered", verl_plugin.PREFIX)
    raise
_log.info("registered %s", ", ".join(NAMES))
