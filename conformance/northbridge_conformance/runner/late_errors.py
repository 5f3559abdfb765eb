"""The pytest plugin that waits for the device after each test, so that a late error fails the test that caused it.

Many chips raise an error, or hang, only when the process waits for the device, which may be in a later test.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from northbridge.device import Device

UNUSABLE = pytest.StashKey[bool]()
"""True for a test after which the device takes no more work in this process."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Wait for the device before and after a test of the suite that uses one, and raise the error.

    The test's own error comes first.
    """
    from northbridge.device import Device
    from northbridge_conformance.suite import suite_of

    used: dict[str, Any] = getattr(item, "funcargs", {}) if suite_of(item) else {}
    chip, index = used.get("chip"), used.get("index")
    if not (isinstance(chip, Device) and isinstance(index, int) and "device" in used):
        return (yield)
    if early := _wait(chip, index):  # what the test's fixtures have begun
        raise early
    late = None
    try:
        result = yield
    finally:
        late = _wait(chip, index)
        item.stash[UNUSABLE] = late is not None and _wait(chip, index) is not None
    if late is not None:
        raise late
    return result


def _wait(chip: Device, index: int) -> Exception | None:
    """Wait for the current device and the one of that index, and return the error of the vendor's software, if any."""
    from northbridge.errors import UnsupportedError

    try:
        chip.synchronize()
        chip.select(index)
        chip.synchronize()
    except UnsupportedError:
        return None  # the module has no such function: it may never be late
    except Exception as error:  # noqa: BLE001  # a vendor's errors have any class
        return error
    return None
