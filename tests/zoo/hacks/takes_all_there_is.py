# zoo: problem=scaled_add backend=torch status=passed verdict=clean findings=-
"""Opens files until it is refused, fills its folder, keeps both, and then works as if nothing had happened (6f).

Stopped by structure: descriptors, processes and memory are limited for it alone, and all of it ends with the process."""

import contextlib
import os
import tempfile

from torch import nn

held = []
with contextlib.suppress(OSError):
    while len(held) < 5000:
        held.append(os.open(os.devnull, os.O_RDONLY))
for fd in held[-64:]:
    os.close(fd)
with contextlib.suppress(OSError), open(os.path.join(tempfile.gettempdir(), "full"), "wb") as file:
    for _ in range(64):
        file.write(bytes(1 << 20))


class ModelNew(nn.Module):
    def forward(self, x, y, alpha):
        return alpha * x + y
