"""Roofline of a device: the shortest time in which it can move a call's bytes and
compute its operations.

Williams, Waterman and Patterson, "Roofline: an insightful visual performance model" (CACM 52.4,
2009).  Bandwidth is measured by each worker; peaks of arithmetic are those of the vendors' data
sheets, dense and at the boost clock.
"""

from __future__ import annotations

PEAKS_TFLOP_S: dict[str, dict[str, float]] = {
    "v100": {"FP32": 15.7, "FP16": 125.0},
    "t4": {"FP32": 8.1, "FP16": 65.0},
    "a10": {"FP32": 31.2, "TF32": 62.5, "BF16": 125.0},
    "a100": {"FP32": 19.5, "TF32": 156.0, "BF16": 312.0},
    "l40s": {"FP32": 91.6, "TF32": 183.0, "BF16": 362.0},
    "h100": {"FP32": 66.9, "TF32": 494.7, "BF16": 989.4},
    "h200": {"FP32": 66.9, "TF32": 494.7, "BF16": 989.4},
    "b200": {"FP32": 75.0, "TF32": 1125.0, "BF16": 2250.0},
}
"""Device class → precision → TFLOP/s, ascending.  H100, H200, A100 and B200 are the SXM modules.
FP8 and FP4 are left out: no result of theirs is within Assay's tolerances.
"""


def peaks_gflop_s(device_class: str) -> dict[str, float]:
    """Peaks of arithmetic by precision, in GFLOP/s, ascending; empty for a class
    without a data sheet here.
    """
    return {name: 1e3 * peak for name, peak in PEAKS_TFLOP_S.get(device_class, {}).items()}


def limit_us(
    bytes_moved: int, flops: int | None, bandwidth_gb_s: float, device_class: str
) -> float:
    """Shortest time of a call in microseconds: its bytes at the bandwidth, or its operations at the
    greatest peak, as the precision of each operation is not known.
    """
    peak = max(peaks_gflop_s(device_class).values(), default=None)
    moving_us = bytes_moved / bandwidth_gb_s * 1e-3
    return max(moving_us, flops / peak * 1e-3) if flops and peak else moving_us
