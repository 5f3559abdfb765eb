"""Vendors' distributions, as the core's tests have them."""

from __future__ import annotations

from tests.core.conftest import install as install, install_here as install_here, nothing_known as nothing_known
