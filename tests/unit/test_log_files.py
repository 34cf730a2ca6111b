"""Log files of processes that run for months."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from app.embedded import log_files

WRITER = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"


def test_a_long_log_is_moved_aside_and_its_writer_goes_on_at_the_beginning(tmp_path: Path) -> None:
    log, other = tmp_path / "web.log", tmp_path / "worker-cpu-0.log"
    other.write_text("short\n")
    with log.open("ab") as file:
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER], stdin=subprocess.PIPE, stdout=file, text=True, bufsize=1
        )
    with writer:
        assert writer.stdin is not None
        writer.stdin.write("x" * 2000 + "\n")
        while log.stat().st_size < 2001:
            pass
        log_files.rotate(tmp_path, most_bytes=1000)
        writer.stdin.write("next\n")
    assert log.read_text() == "next\n"
    assert (tmp_path / "web.log.1").read_text() == "x" * 2000 + "\n"
    assert other.read_text() == "short\n"
    log_files.rotate(tmp_path, most_bytes=1000)
    assert len(list(tmp_path.iterdir())) == 3


def test_every_log_is_written_by_appending() -> None:
    """A file that is emptied under a writer that does not append is filled with NUL
    up to where the writer was.
    """
    for name in ("commands.py", "servers.py"):
        text = (Path(log_files.__file__).parent / name).read_text()
        assert set(re.findall(r'\.open\("(\w+)"', text)) == {"ab"}
