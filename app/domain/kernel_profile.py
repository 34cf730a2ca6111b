"""A profile: a profiler's kernel table and timeline."""

from __future__ import annotations

from dataclasses import dataclass

LAUNCH_MB = 5
"""Memory that a GPU moves in the time of a launch."""


@dataclass(frozen=True, kw_only=True)
class KernelRow:
    """One kernel of the table, over all profiled calls."""

    name: str
    launches: int
    total_us: float
    custom: bool
    """True for a kernel that the candidate brought."""
    origin: str = "unknown"
    """Origin of the launch: `triton`, `extension` (a module that the candidate
    built), `inductor`, `torch` (ATen and the libraries under it), `transfer` (a copy
    between host and device), `unknown`.
    """
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    registers: int | None = None
    shared_bytes: int | None = None
    work_bytes: int | None = None
    """On the CPU device, where an interpreted kernel's time says nothing: modelled work, the bytes
    that it moved, or those that a GPU moves in the time of its arithmetic
    (workers/backends/recording/library_work.py).
    """


@dataclass(frozen=True, kw_only=True)
class ReferenceChains:
    """Work of the reference's chains of operators that each combine a few elements and together
    many, as recurrences over elementwise operators do, and of the operators beside them, as bytes
    that a GPU moves in the same time; zeros without such a chain
    (workers/shims/problem/observers/followed_elements.py).
    """

    launched_bytes: int = 0
    """Work of these chains, with the launches of their operators."""
    rest_bytes: int = 0
    """The same with all operators but the other ones that combine a few elements."""
    whole_bytes: int = 0
    """The same of all operators."""
    local_bytes: int = 0
    """Work of the other operators that combine a few elements, without launches."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Distribution of one call's time.  On the CPU device the table is the candidate
    process's testimony.
    """

    kernels: tuple[KernelRow, ...]
    calls: int
    """Calls profiled."""
    coverage_time: float | None
    """Share of kernel time in kernels that the candidate brought (Dr. Kernel eq. 7), on the CPU
    device of modelled work; None if nothing was timed.
    """
    coverage_count: float | None
    """Share of launches in kernels that the candidate brought."""
    source: str
    """Origin of the profile: `testimony` (the candidate's process, of its own Triton kernels),
    `profiler` (the driver's, in the candidate's process) or `recorder`.
    """
    device_us: float | None = None
    """Device time of the profiled call in microseconds, without waits for the host."""
    profiler_error: str | None = None
    """Error of the driver's profiler, if it was requested and failed."""
    floor_us: float | None = None
    """Shortest possible time of one call: bytes over bandwidth, or FLOPs over peak."""
    bytes_moved: int | None = None
    """Bytes that the reference must at least read and write."""
    flops: int | None = None
    """FLOPs of one call of the reference; multiply and add count as two."""
    shared_products: float | None = None
    """Share of kernel time (CPU device: of modelled work) in those matrix products and convolutions
    of the library that the reference leaves to it, too (workers/referee/probes/shared_products.py);
    None if they are not known.
    """
    reference_rest_bytes: int | None = None
    """Bytes that all other operators of one call of the reference read and write."""
    reference_rest_operators: int | None = None
    """Number of those operators."""
    reference_bytes: int | None = None
    """Work of all operators of one call of the reference, products included, as bytes that a GPU
    moves in the same time; None if it is not known.
    """
    reference_elementwise_bytes: int = 0
    """The part of it in operators each of whose results follows from a few elements."""
    reference_head_bytes: int = 0
    """The part of it in such operators of inputs, before all others."""
    reference_tail_bytes: int | None = None
    """The part of it in such operators at the end of the call; None if it is not known."""
    reference_chains: ReferenceChains | None = None
    """None if they are not known."""

    @property
    def is_modelled(self) -> bool:
        """True on the CPU device: `coverage_time` is of modelled work, not of time."""
        return any(row.work_bytes is not None for row in self.kernels)
