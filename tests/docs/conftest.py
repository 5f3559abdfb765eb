"""Vendors' distributions for the pages that show what they do."""

from __future__ import annotations

from tests.core.conftest import install as install, without_lightning as without_lightning
