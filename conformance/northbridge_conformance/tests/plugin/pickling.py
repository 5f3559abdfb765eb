"""A backend on its way to another process."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest

from northbridge_conformance.runs.question import ask
from northbridge_conformance.tests.plugin.plugin_suite import HEAVY, PluginSuite

_PARTS = ("backend", "device", "collective", "bridge", "capabilities", "acceleration")


class Pickling(PluginSuite):
    """The backend and its parts can be pickled, and hold nothing that belongs to one process only."""

    advice = (
        "Look at the attributes of the plugin's Device, Collective and Bridge: what is this process's alone, such as an"
        " open file, a lock, a socket, a module or a lambda, is made where it is used, or left out by __getstate__();"
        " and at a __reduce__() of a Backend of your own."
    )

    @pytest.mark.parametrize("part", _PARTS)
    def test_it_can_be_pickled_when_it_is_declared(self, loaded: dict[str, Any], part: str) -> None:
        kind, text = loaded["pickles"]["declared"][part]

        assert kind == "pickle", text

    @pytest.mark.parametrize("part", _PARTS)
    def test_it_can_be_pickled_when_it_is_loaded(self, loaded: dict[str, Any], part: str) -> None:
        # If the software is missing, the backend is as declared.
        kind, text = loaded["pickles"].get("loaded", loaded["pickles"]["declared"])[part]

        assert kind == "pickle", text

    @pytest.mark.parametrize("when", ["declared", "loaded"])
    def test_another_process_finds_its_own(
        self, backend: str, environ: dict[str, str], loaded: dict[str, Any], when: Literal["declared", "loaded"]
    ) -> None:
        found = _open(backend, environ, loaded, when)

        assert {part: found.get(part) for part in _PARTS} == dict.fromkeys(_PARTS, "as declared here")

    def test_to_unpickle_it_loads_nothing(
        self, backend: str, environ: dict[str, str], loaded: dict[str, Any], declared: dict[str, Any]
    ) -> None:
        found = _open(backend, environ, loaded, "loaded")

        assert not set(found["modules"]) & (HEAVY | {(declared["package"] or "").partition(".")[0]})


def _open(backend: str, environ: dict[str, str], loaded: dict[str, Any], when: str) -> dict[str, Any]:
    """Return another process's findings in the pickles; if the software is missing, in those made at declaration."""
    pickles = loaded["pickles"].get(when, loaded["pickles"]["declared"])
    texts = json.dumps({part: text for part, (kind, text) in pickles.items() if kind == "pickle"})
    return ask("unpickling", backend, texts, environ=environ).facts
