"""Environments to examine."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from tests.core.command import beside, northbridge
from tests.core.listing.conftest import without_lightning as without_lightning

if TYPE_CHECKING:
    from tests.core.conftest import Install, Site


@pytest.fixture(scope="session")
def contracted(install: Install, without_lightning: Site) -> Site:
    """The vendor that keeps a contract, and no Lightning, which would take seconds."""
    return beside(without_lightning, *install("contracted").folders)


@pytest.fixture
def examine(contracted: Site) -> Callable[..., dict[str, Any]]:
    """Ask the doctor about that vendor, in this environment, for JSON."""

    def examine(*arguments: str, **environ: str) -> dict[str, Any]:
        run = northbridge(contracted, "doctor", "contracted", "--json", *arguments, **environ)
        found: dict[str, Any] = json.loads(run.stdout)
        assert (run.returncode, run.stderr) == (found["exit_code"], "")
        return found

    return examine
