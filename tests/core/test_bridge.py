"""The bridge's defaults."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

import northbridge
import northbridge.bridge


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
    assert bridge.missing() is None
    assert bridge.describe_machine() == {}
    assert vars(bridge) == {}


@pytest.mark.parametrize(
    ("package", "missing"),
    [
        ("json", None),
        ("json.there_is_no_such_module", None),  # load() tells
        ("torch_hal9000.chip", "its software 'torch_hal9000.chip' is not installed"),
    ],
)
def test_missing_asks_for_the_top_level_package(package: str, missing: str | None) -> None:
    class Packaged(Software):
        pass

    Packaged.package = package

    assert Packaged().missing() == missing


def test_missing_finds_a_module_without_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script's stub has none, and importlib raises ValueError."""
    monkeypatch.setitem(sys.modules, "torch_hal9000", ModuleType("torch_hal9000"))

    assert northbridge.bridge.is_installed("torch_hal9000")
