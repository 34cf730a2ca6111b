"""Messages for a module without the class that was asked for."""

from types import ModuleType
from typing import Any

import pytest

from workers.shims import candidate


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (None, "Modell"),
        (lambda x: x, "an object of type function under this name"),
        (3, "an object of type int under this name"),
    ],
)
def test_the_message_says_what_is_there_instead(entry: Any, said: str) -> None:
    module = ModuleType("module")
    vars(module)["Modell"] = type("Modell", (), {"__module__": "module"})
    assert candidate._found(module, entry) == said
