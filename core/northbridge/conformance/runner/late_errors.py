"""The pytest plugin that waits for the device after each test, so that a late error fails the test that caused it.

Many chips raise an error, or hang, only when the process waits for the device, which may be in a later test.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

UNUSABLE = pytest.StashKey[bool]()
"""True for a test after which the device takes no more work in this process."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Wait for the device before and after a test that uses one; raise the error unless the test raised its own."""
    used: dict[str, Any] = getattr(item, "funcargs", {})
    chip: Any = used.get("chip")
    if not ("device" in used and "index" in used and hasattr(chip, "synchronize")):
        return (yield)
    if early := _wait(chip, used["index"]):  # what the test's fixtures have begun
        raise early
    late = None
    try:
        result = yield
    finally:
        late = _wait(chip, used["index"])
        item.stash[UNUSABLE] = late is not None and _wait(chip, used["index"]) is not None
    if late is not None:
        raise late
    return result


def _wait(chip: Any, index: int) -> Exception | None:
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
