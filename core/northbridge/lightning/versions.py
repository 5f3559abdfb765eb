"""The releases of Lightning that Northbridge supports."""

from __future__ import annotations

from packaging.version import InvalidVersion, Version

OLDEST, BEYOND = Version("2.4"), Version("2.8.dev0")
NEWEST_TESTED = Version("2.6.6")
MALICIOUS = frozenset({Version("2.6.2"), Version("2.6.3")})
"""Malicious uploads (GHSA-w37p-236h-pfx3); Northbridge does not touch them."""


def is_malicious(version: str) -> bool:
    """Return True if ``version`` must not even be imported."""
    try:
        return Version(version) in MALICIOUS
    except InvalidVersion:
        return False


def untested(version: str) -> str:
    """Return a remark if ``version`` is newer than the newest tested Lightning; otherwise an empty string."""
    newer = Version(version) > NEWEST_TESTED
    return f" (newer than {NEWEST_TESTED}, the newest that was tested)" if newer else ""


def reason_against_version(version: str) -> str | None:
    """Return the reason why Northbridge does not support Lightning ``version``; None if it does."""
    try:
        found = Version(version)
    except InvalidVersion:
        return f"its version {version!r} cannot be parsed"
    if found in MALICIOUS:
        return f"version {found} was a malicious upload: uninstall it now, and see GHSA-w37p-236h-pfx3"
    if not OLDEST <= found < BEYOND:
        return f"version {found} is not supported. Fix: install {OLDEST} or later, before 2.8"
    return None
