"""Fixtures of level C0: the plugin, and the answers of processes about it."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import northbridge
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.runs.question import Answer, ask
from northbridge_conformance.suite import TRAINERS, Suite

HEAVY = frozenset({"torch", "lightning", "pytorch_lightning", "lightning_fabric"})
"""Modules that a plugin does not need for its import or for the detection of its devices."""

ALONE = ("0", "1")
"""The rank and the number of ranks, as arguments of a question."""


class PluginSuite(Suite):
    """Tests that run the plugin's code in separate processes, without the chip or the vendor's software."""

    @pytest.fixture
    def plugin(self, backend: str) -> northbridge.Plugin:
        """The first plugin that announces the name; there should be only one."""
        found = [plugin for plugin in northbridge.installed() if plugin.name == backend]
        assert found, f"no installed distribution announces {backend!r} in the entry-point group 'northbridge.backends'"
        return found[0]

    @pytest.fixture
    def declared(self, backend: str, environ: dict[str, str]) -> dict[str, Any]:
        """Return the plugin's declaration."""
        return ask("plugin:declare", backend, environ=environ).facts

    @pytest.fixture
    def detected(self, backend: str, environ: dict[str, str]) -> dict[str, Any]:
        """Return the plugin's detection results on this machine."""
        return ask("plugin:detect", backend, environ=environ).facts

    @pytest.fixture
    def loaded(self, backend: str, environ: dict[str, str]) -> dict[str, Any]:
        """Return the state after loading the software, or the error."""
        return ask("software:load", backend, *ALONE, environ=environ).facts


def is_unsupported(loaded: dict[str, Any], detected: dict[str, Any]) -> bool:
    """Return True if the software could not be loaded because this machine lacks it, or the chip.

    Raises :class:`AssertionError` if loading failed although this machine does not lack either.
    """
    if "error" not in loaded:
        return False
    kind, message = loaded["error"]
    lacking = not detected["installed"] or detected["detected"][0] == 0
    assert lacking, f"nothing says that this machine lacks software or chip, and loading ended with {kind}: {message}"
    assert kind in ("SoftwareMissingError", "SoftwareLoadError"), message
    return True


def trainer_namespace() -> str:
    """Return the first installed namespace of Lightning with a Trainer; skip the test if there is none."""
    for namespace in TRAINERS:
        if find_spec(namespace.partition(".")[0]) is not None:
            return namespace
    raise pytest.skip.Exception(f"none of {', '.join(TRAINERS)} is installed")


def tops(answer: Answer) -> set[str]:
    """Return the top-level modules in an answer."""
    return {module.partition(".")[0] for module in answer.facts["modules"]}
