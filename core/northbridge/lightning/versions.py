"""The releases of Lightning that Northbridge supports."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from os.path import exists, isdir
from urllib.parse import urlsplit
from urllib.request import url2pathname

from packaging.version import InvalidVersion, Version

from northbridge.lightning.namespaces import NAMESPACES

OLDEST, BEYOND = Version("2.4"), Version("2.8.dev0")
NEWEST_TESTED = Version("2.6.6")
MALICIOUS = frozenset({Version("2.6.2"), Version("2.6.3")})
"""Malicious uploads (GHSA-w37p-236h-pfx3), which Northbridge does not touch.

Lightning's repository had the version 2.6.2, too."""

INSTALL = "pip install 'lightning>=2.4,!=2.6.2,!=2.6.3,<2.8' 'pytorch-lightning>=2.4,!=2.6.2,!=2.6.3,<2.8'"
"""The command that installs a supported Lightning. It names both: lightning 2.6.6 requires any pytorch-lightning."""

DISTRIBUTIONS = tuple(dict.fromkeys(name for each in NAMESPACES.values() for name in each.distributions))
"""Every distribution that contains a namespace of Lightning."""


def reason_against_uploads(distributions: Iterable[str] = DISTRIBUTIONS) -> str | None:
    """Return the reason why Lightning must not even be imported: an installed malicious upload; None if there is none.

    One spoils every namespace: lightning 2.6.6 requires pytorch-lightning without a version.
    """
    for name in distributions:
        found = _installed(name)
        if found is not None and _is_upload(str(found.version), found):
            return _warn_of(f"{name} {found.version}")
    return None


def untested(version: str) -> str:
    """Return a remark if ``version``, which is supported, was not tested; otherwise an empty string."""
    found = Version(version)
    if found > NEWEST_TESTED:
        return f" (newer than {NEWEST_TESTED}, the newest that was tested)"
    if found in MALICIOUS:
        return f" (built from source, says {found}; not tested. If a run fails, install {NEWEST_TESTED})"
    return ""


def reason_against_version(version: str, distributions: Iterable[str]) -> str | None:
    """Return the reason why Northbridge does not support Lightning ``version``; None if it does.

    The version is what Lightning says of itself, and ``distributions`` may contain it, the likeliest first.
    """
    try:
        found = Version(version)
    except InvalidVersion:
        return f"its version {version!r} cannot be parsed"
    if _is_upload(version, next(filter(None, map(_installed, distributions)), None)):
        return _warn_of(f"version {found}")
    if not OLDEST <= found < BEYOND:
        return f"version {found} is not supported. Fix: {INSTALL}"
    return None


def _warn_of(upload: str) -> str:
    return f"{upload} was a malicious upload: uninstall it now, and see GHSA-w37p-236h-pfx3"


def _is_upload(version: str, source: Distribution | None) -> bool:
    try:
        malicious = Version(version) in MALICIOUS
    except InvalidVersion:
        return False
    return malicious and not (source is not None and _is_built_from_source(source))


def _installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _is_built_from_source(installed: Distribution) -> bool:
    """Return True if pip wrote that it built the distribution from a repository or a folder (PEP 610)."""
    try:
        origin = json.loads(installed.read_text("direct_url.json") or "")
        if not isinstance(origin, dict) or "archive_info" in origin:
            return False
        if isinstance(origin.get("vcs_info"), dict):
            return True
        return isinstance(origin.get("dir_info"), dict) and _is_of_folder(str(origin.get("url")))
    except (OSError, ValueError, RecursionError):
        return False


def _is_of_folder(url: str) -> bool:
    where = urlsplit(url)
    path = url2pathname(where.path)
    return where.scheme == "file" and (isdir(path) or not exists(path))  # it may be gone after the installation
