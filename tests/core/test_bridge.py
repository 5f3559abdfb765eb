"""The bridge's defaults."""

from __future__ import annotations

import pytest

import northbridge
from northbridge import probe


class Software(northbridge.Bridge):
    backend = "tested"

    def load(self) -> None:
        """Load nothing: these tests ask."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that a child process was asked about; it counts three."""
    names: list[str] = []

    def count(name: str) -> int:
        names.append(name)
        return 3

    monkeypatch.setattr(probe, "count_in_child", count)
    return names


def test_a_bridge_without_load_cannot_be_made() -> None:
    class Unfinished(northbridge.Bridge): ...

    with pytest.raises(TypeError, match=r"abstract method '?load"):
        Unfinished()  # type: ignore[abstract]  # the point of the test


def test_a_child_is_asked_about_the_backend(asked: list[str]) -> None:
    assert Software().detect() == 3
    assert asked == ["tested"]


def test_where_the_package_is_installed_a_child_is_asked(asked: list[str]) -> None:
    class Installed(Software):
        package = "json"

    assert Installed().detect() == 3


def test_where_the_package_is_not_installed_nobody_is_asked(asked: list[str]) -> None:
    class Missing(Software):
        package = "torch_hal9000"

    assert Missing().detect() == 0
    assert asked == []


def test_where_the_parent_of_the_package_is_not_installed_nobody_is_asked(asked: list[str]) -> None:
    class Missing(Software):
        package = "hal9000_frameworks.torch"

    assert Missing().detect() == 0
    assert asked == []


def test_below_the_top_of_the_package_nobody_looks_for_that_would_import_it(asked: list[str]) -> None:
    class Beneath(Software):
        package = "json.there_is_no_such_module"

    assert Beneath().detect() == 3  # the child knows more
    assert asked == ["tested"]


def test_everything_but_load_may_be_left_out() -> None:
    bridge = Software()

    bridge.prepare()
    bridge.prepare_rank(index=0, local_rank=0, world_size=1)
    bridge.after_backward()
    bridge.after_step()
    bridge.after_evaluation()
    bridge.check_environment()

    assert bridge.describe_machine() == {}
    assert vars(bridge) == {}
