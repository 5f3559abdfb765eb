"""The bridge's defaults."""

from __future__ import annotations

import pytest

import northbridge


class Software(northbridge.Bridge):
    backend = "tested"

    def load(self) -> None:
        """Load nothing: these tests ask."""


def test_a_bridge_without_load_cannot_be_made() -> None:
    class Unfinished(northbridge.Bridge): ...

    with pytest.raises(TypeError, match=r"abstract method '?load"):
        Unfinished()  # type: ignore[abstract]  # the point of the test


def test_everything_but_load_may_be_left_out() -> None:
    bridge = Software()

    bridge.prepare()
    bridge.prepare_rank(index=0, local_rank=0, world_size=1)
    bridge.after_backward()
    bridge.after_step()
    bridge.after_evaluation()
    bridge.check_environment()
    bridge.check_count(3)

    assert bridge.detect() is None
    assert bridge.describe_machine() == {}
    assert vars(bridge) == {}
