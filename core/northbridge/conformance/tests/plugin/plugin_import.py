"""What the import of a plugin costs, which everybody pays in whose environment it is installed."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

import northbridge
from northbridge.conformance.runs.question import Answer, ask, ask_again
from northbridge.conformance.tests.plugin.plugin_suite import HEAVY, PluginSuite, tops

MOST_SECONDS = 0.05
"""CPU time of the import, beyond that of northbridge and pluggy."""

MOST_WAITED = 0.25
"""Seconds by the clock, which other processes make longer: who waits, for a server or a card, takes longer still."""

_TRIES = 5


class PluginImport(PluginSuite):
    """The import of the plugin's module is quick, silent and without traces, and brings no vendor's software."""

    advice: ClassVar[str] = (
        "the top of the plugin's module: move imports into the hook northbridge_backend(), into Bridge.load() and into"
        " the methods that need them; `python -X importtime -c 'import <module>'` shows what takes the time"
    )

    @pytest.fixture
    def imported(self, plugin: northbridge.Plugin, environ: dict[str, str]) -> Answer:
        """What the import brought."""
        return ask("plugin_import", plugin.module, environ=environ)

    def test_it_takes_no_longer_than_fifty_milliseconds(
        self, plugin: northbridge.Plugin, environ: dict[str, str]
    ) -> None:
        # Other processes can make it slower and not faster.
        answer = ask_again("plugin_import", plugin.module, environ=environ)
        seconds: float = answer.facts["seconds"]
        clock: float = answer.facts["clock"]
        for _ in range(1, _TRIES):
            if seconds <= MOST_SECONDS and clock <= MOST_WAITED:
                break
            again = ask_again("plugin_import", plugin.module, environ=environ).facts
            seconds, clock = min(seconds, again["seconds"]), min(clock, again["clock"])

        assert seconds <= MOST_SECONDS, f"it brings {', '.join(sorted(tops(answer)))}"
        assert clock <= MOST_WAITED, "it waits for something"

    def test_it_brings_neither_torch_nor_lightning(self, imported: Answer) -> None:
        assert not tops(imported) & HEAVY

    def test_it_does_not_bring_the_vendors_package(self, imported: Answer, declared: dict[str, Any]) -> None:
        assert _top(declared["package"]) not in tops(imported)

    def test_its_declaration_brings_neither_of_them(self, declared: dict[str, Any]) -> None:
        assert not set(declared["modules"]) & (HEAVY | {_top(declared["package"])})

    def test_it_prints_nothing(self, imported: Answer) -> None:
        assert imported.said == ""

    def test_it_starts_no_thread_and_no_process(self, imported: Answer) -> None:
        assert imported.facts["threads"] == 1
        assert imported.facts["children"] == []

    def test_it_leaves_the_environment_and_the_path_of_imports_alone(self, imported: Answer) -> None:
        assert imported.facts["variables"] == []
        assert imported.facts["path"] == []


def _top(package: str | None) -> str:
    return (package or "").partition(".")[0]
