"""What a plugin's distribution announces, which is read without importing anything."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from packaging.version import Version

import northbridge
from northbridge.conformance.tests.plugin.plugin_suite import PluginSuite
from northbridge.discovery.installed import LIGHTNING_NAMES, is_wellformed


class PluginMetadata(PluginSuite):
    """One distribution announces the name, and its module declares a backend of that name."""

    advice: ClassVar[str] = (
        "the plugin's pyproject.toml: [project] name and version, and the entry point of the group"
        ' "northbridge.backends"; and the hook northbridge_backend() of the module that it names'
    )

    def test_one_distribution_announces_the_name(self, backend: str) -> None:
        found = [str(plugin) for plugin in northbridge.installed() if plugin.name == backend]

        assert len(found) == 1, f"{backend!r} is announced by {found or 'nobody'}"

    def test_the_distribution_has_a_name_and_a_version(self, plugin: northbridge.Plugin) -> None:
        assert re.fullmatch(r"[A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9._-]*[A-Za-z0-9]", plugin.distribution)
        assert str(Version(plugin.version))

    def test_the_name_is_one_that_lightning_can_take(self, backend: str) -> None:
        assert is_wellformed(backend)
        assert backend not in LIGHTNING_NAMES

    def test_the_entry_point_names_a_module_and_nothing_in_it(self, plugin: northbridge.Plugin) -> None:
        assert all(part.isidentifier() for part in plugin.module.split(".")), plugin.module

    def test_the_module_declares_a_backend_of_that_name(self, backend: str, declared: dict[str, Any]) -> None:
        assert declared["name"] == backend

    def test_it_was_written_for_this_version_of_the_api(self, declared: dict[str, Any]) -> None:
        written_for, spoken_here = declared["api"]

        assert written_for == spoken_here
