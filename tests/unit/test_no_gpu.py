"""Functions of torch for GPUs, on a device that has none."""

import json
import os
import subprocess
import sys

RUN = """
import json
import torch
from workers.backends.interpreter import no_gpu

no_gpu.install()
x = torch.ones(2)
with torch.cuda.device(x.device), torch.cuda.device(x.device.index):
    copied = x.cuda(x.device, non_blocking=True).tolist()
torch.cuda.set_device(x.device)
current = torch.cuda.current_device()
torch.cuda.set_device(current)
torch.cuda.set_device(torch.device(f"cuda:{current}"))
with torch.cuda.device(current), torch.cuda.device(f"cuda:{current}"):
    pass
with torch.get_device_module().device(x.device):
    pass
torch.cuda.synchronize()
torch.cuda.synchronize(device=x.device)
properties = torch.cuda.get_device_properties(current)
raised = []
for name, use in {
    "copy": x.cuda,
    "memory": lambda: properties.total_memory,
    "capability": torch.cuda.get_device_capability,
    "tensor": lambda: torch.empty(1, device="cuda"),
    "wait": lambda: torch.cuda.synchronize("cuda"),
    "other": lambda: torch.cuda.set_device(1),
}.items():
    try:
        use()
    except (AssertionError, AttributeError, RuntimeError):
        raised.append(name)
print(json.dumps([copied, properties.multi_processor_count, raised]))
"""


def test_only_what_needs_no_gpu_is_done_without_one() -> None:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    ran = subprocess.run(
        [sys.executable, "-c", RUN], capture_output=True, text=True, check=True, env=environment
    )
    assert json.loads(ran.stdout) == [
        [1.0, 1.0],
        os.cpu_count(),
        ["copy", "memory", "capability", "tensor", "wait", "other"],
    ]
