"""The import of a plugin, the loading of the vendor's software, and a backend on its way to another process."""

from __future__ import annotations

import contextlib
import json
from typing import Any, Literal

import northbridge
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.runs.processes import is_read_by_others, tells_of_a_launcher
from northbridge_conformance.runs.question import Answer, NoAnswerError, ask, ask_again
from northbridge_conformance.tests.plugin.declaration import ALONE, HEAVY, PluginSuite, is_unsupported, tops

MOST_SECONDS = 0.05
"""The CPU time of the import, without that of northbridge and pluggy."""

MOST_WAITED = 0.25
"""The wall time in seconds, which other processes prolong; a wait for a server or a card takes longer still."""

_TRIES = 5


class PluginImport(PluginSuite):
    """The import of the plugin's module is quick, silent, without traces, and without the vendor's software."""

    advice = (
        "Look at the top of the plugin's module: move imports into the hook northbridge_backend(), into Bridge.load()"
        " and into the methods that need them; `python -X importtime -c 'import <module>'` shows what takes the time."
    )

    @pytest.fixture
    def imported(self, plugin: northbridge.Plugin, environ: dict[str, str]) -> Answer:
        """The modules and traces of the import."""
        return ask("plugin:import_module", plugin.module, environ=environ)

    def test_import_costs_at_most_50_milliseconds(self, plugin: northbridge.Plugin, environ: dict[str, str]) -> None:
        # Other processes can only make it slower.
        answer = ask_again("plugin:import_module", plugin.module, environ=environ)
        seconds: float = answer.facts["seconds"]
        clock: float = answer.facts["clock"]
        for _ in range(1, _TRIES):
            if seconds <= MOST_SECONDS and clock <= MOST_WAITED:
                break
            again = ask_again("plugin:import_module", plugin.module, environ=environ).facts
            seconds, clock = min(seconds, again["seconds"]), min(clock, again["clock"])

        assert seconds <= MOST_SECONDS, f"it brings {', '.join(sorted(tops(answer)))}"
        assert clock <= MOST_WAITED, "it waits for something"

    def test_import_loads_neither_torch_nor_lightning(self, imported: Answer) -> None:
        assert not tops(imported) & HEAVY

    def test_import_does_not_load_the_vendor_package(self, imported: Answer, declared: dict[str, Any]) -> None:
        assert _top(declared["package"]) not in tops(imported)

    def test_declaration_loads_neither_torch_nor_vendor_package(self, declared: dict[str, Any]) -> None:
        assert not set(declared["modules"]) & (HEAVY | {_top(declared["package"])})

    def test_import_prints_nothing(self, imported: Answer) -> None:
        assert imported.said == ""

    def test_import_starts_no_thread_and_no_process(self, imported: Answer) -> None:
        assert imported.facts["threads"] == 1
        assert imported.facts["children"] == []

    def test_import_keeps_the_environment_and_sys_path(self, imported: Answer) -> None:
        assert imported.facts["variables"] == []
        assert imported.facts["path"] == []


def _top(package: str | None) -> str:
    return (package or "").partition(".")[0]


_OF_THE_USER = {"MASTER_ADDR": "127.0.0.2", "MASTER_PORT": "29531", "OMP_NUM_THREADS": "3", "PYTHONHASHSEED": "11"}


class SoftwareLoading(PluginSuite):
    """The software is loaded once and for all, and what the user has set in the environment stays."""

    advice = (
        "Look at Bridge.load(), which has to do nothing when it is called again; and at what writes to os.environ in"
        " Bridge.prepare(), Bridge.load() and Bridge.prepare_rank(): use os.environ.setdefault(), and"
        " northbridge.keep_environment() around an import that writes."
    )

    def test_load_works_or_says_what_is_missing(self, loaded: dict[str, Any], detected: dict[str, Any]) -> None:
        assert is_unsupported(loaded, detected) or loaded["looks"][0]["device"]

    def test_second_load_changes_nothing(self, loaded: dict[str, Any], detected: dict[str, Any]) -> None:
        if not is_unsupported(loaded, detected):
            assert loaded["loaded again"] == "None"
            first, again = loaded["looks"]
            assert again == first
            assert loaded["same objects"]

    def test_device_defaults_find_their_torch_functions(self, loaded: dict[str, Any], detected: dict[str, Any]) -> None:
        # A module of torch's own is here even where the chip's software is missing.
        if not is_unsupported(loaded, detected) or "broken defaults" in loaded:
            assert loaded["broken defaults"] == []

    def test_autocast_accepts_each_dtype_that_is_not_denied(
        self, loaded: dict[str, Any], detected: dict[str, Any]
    ) -> None:
        if not is_unsupported(loaded, detected):
            assert {name: problem for name, problem in loaded["mixed precision"].items() if problem} == {}

    def test_load_keeps_process_state(self, loaded: dict[str, Any], detected: dict[str, Any]) -> None:
        if is_unsupported(loaded, detected):
            return
        before, after = loaded["states"]

        # For example, a seed that the user set before building the Trainer must stay.
        assert {name: [before[name], after[name]] for name in before if after[name] != before[name]} == {}

    def test_load_sets_no_launcher_variables(self, loaded: dict[str, Any]) -> None:
        # MASTER_PORT, for example, would reach every job on this machine and every process that a user starts.
        written = {name: values for name, values in loaded["variables"].items() if tells_of_a_launcher(name)}

        assert written == {}

    def test_load_sets_no_variables_of_other_software(self, loaded: dict[str, Any]) -> None:
        # Every process that this one starts would obey it.
        assert {name: values for name, values in loaded["variables"].items() if is_read_by_others(name)} == {}

    @pytest.fixture(params=[ALONE, ("1", "2")], ids=["alone", "rank 1 of 2"])
    def place(self, request: pytest.FixtureRequest) -> tuple[str, str]:
        """The rank and the number of ranks for which the process is prepared."""
        rank, ranks = request.param
        return rank, ranks

    @pytest.fixture
    def others(self, backend: str, environ: dict[str, str], place: tuple[str, str]) -> dict[str, str]:
        """Other values of the variables that the software sets if they are unset."""
        loaded = ask("software:load", backend, *place, environ=environ).facts
        written = {name: now for name, (_, now) in loaded["variables"].items() if not name.startswith("_")}
        return {name: _another(now or "") for name, now in written.items()}

    def test_load_overwrites_no_environment_variable(
        self, backend: str, environ: dict[str, str], others: dict[str, str], place: tuple[str, str]
    ) -> None:
        def overwritten(others: dict[str, str]) -> dict[str, list[str | None]]:
            user = {**_OF_THE_USER, **others}
            found = ask("software:load", backend, *place, environ=environ, user=user).facts
            return {name: values for name, values in found["variables"].items() if values[0] is not None}

        # The vendor may refuse an invalid value, also by ending the process, but must not replace it.
        try:
            found = overwritten(others)
        except NoAnswerError:
            found = overwritten({})
            for name, value in others.items():
                with contextlib.suppress(NoAnswerError):
                    found |= overwritten({name: value})
        assert found == {}


def _another(value: str) -> str:
    """Return a different value that a user might have chosen."""
    return str(1 - int(value)) if value in ("0", "1") else f"{value}0"


_PARTS = ("backend", "device", "collective", "bridge", "capabilities", "acceleration")


class Pickling(PluginSuite):
    """The backend and its parts can be pickled, and hold nothing that belongs to one process only."""

    advice = (
        "Look at the attributes of the plugin's Device, Collective and Bridge: what is this process's alone, such as an"
        " open file, a lock, a socket, a module or a lambda, is made where it is used, or left out by __getstate__();"
        " and at a __reduce__() of a Backend of your own."
    )

    @pytest.mark.parametrize("part", _PARTS)
    def test_declared_backend_can_be_pickled(self, loaded: dict[str, Any], part: str) -> None:
        kind, text = loaded["pickles"]["declared"][part]

        assert kind == "pickle", text

    @pytest.mark.parametrize("part", _PARTS)
    def test_loaded_backend_can_be_pickled(self, loaded: dict[str, Any], part: str) -> None:
        # If the software is missing, the backend is as declared.
        kind, text = loaded["pickles"].get("loaded", loaded["pickles"]["declared"])[part]

        assert kind == "pickle", text

    @pytest.mark.parametrize("when", ["declared", "loaded"])
    def test_unpickling_finds_the_backend_of_the_process(
        self, backend: str, environ: dict[str, str], loaded: dict[str, Any], when: Literal["declared", "loaded"]
    ) -> None:
        found = _open(backend, environ, loaded, when)

        assert {part: found.get(part) for part in _PARTS} == dict.fromkeys(_PARTS, "as declared here")

    def test_unpickling_imports_neither_torch_nor_vendor_package(
        self, backend: str, environ: dict[str, str], loaded: dict[str, Any], declared: dict[str, Any]
    ) -> None:
        found = _open(backend, environ, loaded, "loaded")

        assert not set(found["modules"]) & (HEAVY | {(declared["package"] or "").partition(".")[0]})


def _open(backend: str, environ: dict[str, str], loaded: dict[str, Any], when: str) -> dict[str, Any]:
    """Return another process's findings in the pickles; if the software is missing, in those made at declaration."""
    pickles = loaded["pickles"].get(when, loaded["pickles"]["declared"])
    texts = json.dumps({part: text for part, (kind, text) in pickles.items() if kind == "pickle"})
    return ask("plugin:unpickle", backend, texts, environ=environ).facts
