"""The package's face: every name is there, and importing it loads nothing."""

from __future__ import annotations

import subprocess
import sys

import treadle


def test_every_name_of_the_face_can_be_used() -> None:
    missing = [name for name in treadle.__all__ if getattr(treadle, name, None) is None]
    assert missing == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(treadle, "no_such_name")


def test_importing_the_package_loads_none_of_its_rooms() -> None:
    code = "import sys, treadle; print([m for m in sys.modules if m.startswith('treadle.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
