"""A client over HTTP, and the reward functions of trainers, live in environments
without the service's packages.
"""

from __future__ import annotations

import subprocess
import sys

SERVICE = [
    *(
        "alembic",
        "celery",
        "flask",
        "gevent",
        "kombu",
        "prometheus_client",
        "psycopg",
        "pyarrow",
        "redis",
        "rich",
    ),
    *("sqlalchemy", "werkzeug", "zstandard"),
]

PROGRAM = f"""
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {SERVICE!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}")

sys.meta_path.insert(0, Absent())
from app.client import Client, ServiceError, Submission
from app.integrations import trl, verl

with Client(url="http://127.0.0.1:1") as client:
    assert client.wait([]) == []
assert not set({SERVICE!r}) & {{name.partition(".")[0] for name in sys.modules}}
print("works")
"""


def test_a_client_over_http_needs_no_package_of_the_service() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.stdout == "works\n", done.stderr
