"""Backends: the ways in which a candidate may be written, and the traits that the
rest of the system asks about.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Backend:
    """Traits of a backend; comparisons of its name have no place elsewhere."""

    name: str
    language: str
    """Its name in a prompt."""
    kernels: str
    """Name of its kernels in a sentence of a prompt."""
    origin: str
    """Origin of its kernels in a profile (workers.protocol.launch_records)."""
    brings_kernels: bool = True
    """Candidates claim kernels of their own."""
    interpreted_on_cpu: bool = False
    """On the CPU device its kernels run in an interpreter, which knows less than a GPU."""
    replaceable_launches: bool = False
    """Its launches are recorded in the candidate's process, and can be replaced there."""
    compiled_on_host: bool = False
    """Its sources are compiled by the host's toolchain while they are loaded, and
    run on a GPU only.
    """


BACKENDS = {
    each.name: each
    for each in (
        Backend(
            name="triton",
            language="Triton",
            kernels="Triton kernels",
            origin="triton",
            interpreted_on_cpu=True,
            replaceable_launches=True,
        ),
        Backend(
            name="cuda",
            language="CUDA C++ loaded with torch.utils.cpp_extension",
            kernels="CUDA kernels (compiled with torch.utils.cpp_extension.load_inline)",
            origin="extension",
            compiled_on_host=True,
        ),
        Backend(
            name="torch",
            language="PyTorch",
            kernels="PyTorch code",
            origin="torch",
            brings_kernels=False,
        ),
    )
}
"""Backends by the name that a candidate gives."""

OWN_ORIGINS = frozenset(each.origin for each in BACKENDS.values() if each.brings_kernels)
"""Origins of kernels that a candidate brings."""

DEFAULT_BACKEND = "triton"
"""Backend of a submission that names none."""
