"""A device that is full."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from northbridge.conformance.runs.question import ask
from northbridge.conformance.suite import Suite

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
        return ask("full_memory", backend).facts

    @pytest.mark.parametrize("way", WAYS)
    def test_it_is_told_as_full_memory(self, found: dict[str, Any], way: str) -> None:
        told = found["told"][way]

        assert told["error"], told["said"]
        assert told["known"], f"neither torch.OutOfMemoryError nor the words of Device.out_of_memory: {told}"

    def test_another_error_is_not_taken_for_full_memory(self, found: dict[str, Any]) -> None:
        told = found["wrong shape"]

        assert told["error"], told["said"]
        assert not told["known"], f"the words of Device.out_of_memory stand in an error that is about shapes: {told}"

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
