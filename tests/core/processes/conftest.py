"""Plugins that a child process asks about."""

from __future__ import annotations

from tests.core.diagnostics.conftest import without_lightning as without_lightning, write_plugin as write_plugin
