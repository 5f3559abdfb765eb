"""A device that is full."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import pytest

from northbridge.conformance.processes import start
from northbridge.conformance.run_environment import tells_of_a_launcher
from northbridge.conformance.suite import Suite

LIMIT_S = 120.0
"""How long the process may take before it counts as hung."""

WAYS = ("a new tensor", "a result", "a copy", "a growing tensor", "the same once more")


class OutOfMemory(Suite):
    """Whoever asks for more than there is gets an error, and goes on with what they have.

    The process is one of its own, on the first device: a chip that ends it does not end the suite.
    """

    claims = ("out_of_memory",)
    advice: ClassVar[str] = (
        "The allocator of your torch plugin has to raise torch.OutOfMemoryError, or a RuntimeError whose words stand in"
        " Device.out_of_memory, and to leave the process and what it holds alone."
    )

    @pytest.fixture
    def found(self, backend: str) -> dict[str, Any]:
        """What the process found."""
        return fill(backend)

    @pytest.mark.parametrize("way", WAYS)
    def test_it_is_told_as_full_memory(self, found: dict[str, Any], way: str) -> None:
        told = found["told"][way]

        assert told["error"], told["said"]
        assert told["known"], f"neither torch.OutOfMemoryError nor the words of Device.out_of_memory: {told}"

    def test_what_was_held_is_intact(self, found: dict[str, Any]) -> None:
        assert found["intact"]

    def test_a_small_tensor_has_room_afterwards(self, found: dict[str, Any]) -> None:
        assert found["small"] == [2, 2, 2]

    def test_a_layer_trains_afterwards(self, found: dict[str, Any]) -> None:
        assert found["gradient"] == [[2] * 4] * 4

    def test_nothing_is_kept_of_what_failed(self, found: dict[str, Any]) -> None:
        assert found["kept"] == {}

    def test_no_random_number_is_lost(self, found: dict[str, Any]) -> None:
        assert found["drew nothing"]


def fill(backend: str) -> dict[str, Any]:
    """Return what a process finds that runs out of the backend's memory; one process for all tests.

    Raises :class:`AssertionError` where it did not live to tell.
    """
    code, said = _fill(backend)
    lines = said.splitlines()
    assert code == 0, f"a process that ran out of the memory of {backend!r} ended with exit code {code}:\n{said}"
    found: dict[str, Any] = json.loads(lines[-1])
    return found


@functools.cache
def _fill(backend: str) -> tuple[int | str, str]:
    environ = {name: value for name, value in os.environ.items() if not tells_of_a_launcher(name)}
    with tempfile.TemporaryDirectory(prefix="northbridge-conformance-") as folder:
        said = Path(folder) / "said.txt"
        with said.open("wb") as output:
            process = start(["-m", "northbridge.conformance.filling", backend], environ, Path(folder), output)
        try:
            code: int | str = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            code = f"none within {LIMIT_S:g} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return code, said.read_text(errors="replace")
