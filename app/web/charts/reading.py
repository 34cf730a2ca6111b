"""BROWSE: values of a chart at every place that can be pointed at."""

from __future__ import annotations

import json
from collections.abc import Sequence

Stop = tuple[float, str, Sequence[tuple[int, float, str]]]
"""A place that can be pointed at: percentage across, label, and (line, pixels down, value) of each
line there.
"""


def as_json(names: Sequence[str], stops: Sequence[Stop], *, holds: bool = False) -> str:
    """JSON for `static/charts.js`: names of the lines, and the stops.  `holds`: a value is that of
    all places up to the next stop.
    """
    return json.dumps(
        {"names": list(names), "stops": stops, "holds": holds},
        ensure_ascii=False,
        separators=(",", ":"),
    )
