"""Installed backends, and their look-up by name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import EntryPoints, PathDistribution
from pathlib import Path

import pytest
from bench.plugin import announce
from tests.core.broken_plugins import write_distribution
from tests.core.conftest import Install

import northbridge
from northbridge.discovery import installed
from northbridge.discovery.installed import GROUP, describe


def names() -> list[str]:
    return [plugin.name for plugin in northbridge.installed()]


def _recorded(
    read_text: Callable[[PathDistribution, str], str | None], read: list[str]
) -> Callable[[PathDistribution, str], str | None]:
    def recorded(self: PathDistribution, filename: str) -> str | None:
        read.append(filename)
        return read_text(self, filename)

    return recorded


def vendors_imported() -> set[str]:
    return {name for name in sys.modules if name.startswith(("northbridge_", "torch_acme"))}


class TestInstalled:
    def test_each_is_listed_with_module_and_version(self, install_here: Install) -> None:
        """A name that two distributions claim is listed twice; the names are sorted, and no plugin is imported."""
        before = vendors_imported()
        install_here()

        (acme,) = (plugin for plugin in northbridge.installed() if plugin.name == "acme")
        doubles = [str(plugin) for plugin in northbridge.installed() if plugin.name == "double"]

        assert (acme.module, acme.distribution, acme.version) == ("northbridge_acme", "northbridge-acme", "0.1.0")
        assert repr(acme) == "<Plugin 'acme' in 'northbridge_acme', from northbridge-acme 0.1.0>"
        assert doubles == ["northbridge-double-one 1.0", "northbridge-double-two 2.0"]
        assert names() == sorted(names())
        assert vendors_imported() == before

    def test_names_are_read_alone_and_again_once_one_is_added(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        read: list[str] = []
        monkeypatch.setattr(PathDistribution, "read_text", _recorded(PathDistribution.read_text, read))
        monkeypatch.syspath_prepend(tmp_path)
        installed._read.cache_clear()
        before = names()

        assert "entry_points.txt" in read
        assert "METADATA" not in read
        read.clear()
        assert (names(), read) == (before, [])
        write_distribution(tmp_path, "northbridge-quartz", "1.0", {GROUP: {"quartz": "northbridge_quartz"}})
        assert names() == sorted([*before, "quartz"])

    def test_broken_installations_do_not_hide_the_others(
        self, install_here: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One without metadata, and one whose metadata are not text."""
        half = announce(tmp_path, "half", "half")
        (half / "METADATA").unlink()
        (half / "entry_points.txt").write_text("[northbridge.backends]\nacme = half\n")
        latin = announce(tmp_path, "latin", "latin") / "METADATA"
        latin.write_bytes(b"Name: northbridge-latin\nVersion: 1.0\nSummary: caf\xe9\n")
        monkeypatch.syspath_prepend(tmp_path)
        install_here("double_one", "acme")

        broken = f"a broken installation in {tmp_path}"
        assert {"cpu_sim", "double", "acme", "latin"} <= set(names())
        assert describe("latin") == f"backend 'latin' ({broken})"
        with pytest.raises(northbridge.BackendConflictError) as caught:
            northbridge.get("acme")
        assert str(caught.value) == (
            f"backend 'acme' is installed twice: {broken} and northbridge-acme 0.1.0. Fix: uninstall one"
        )

    @pytest.mark.parametrize("name", ["acme-x1", "Acme", "acme x1", "1acme"])
    def test_a_malformed_name_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        write_distribution(tmp_path, "northbridge-odd", "1.0", {GROUP: {name: "odd"}})
        monkeypatch.syspath_prepend(tmp_path)

        with pytest.raises(northbridge.BackendNameError) as caught:
            northbridge.get(name)

        assert str(caught.value) == (
            f"northbridge-odd 1.0 calls its backend {name!r}, not lower-case letters, digits and underscores."
            " Fix: uninstall northbridge-odd"
        )


def test_the_plugin_that_was_asked_for_is_imported_and_no_other(install_here: Install) -> None:
    before = vendors_imported()
    install_here()

    backend = northbridge.get("acme")

    assert vendors_imported() - before == {"northbridge_acme"}
    parts = (backend.name, backend.device.type, backend.require_collective().name, backend.bridge.backend)
    assert parts == ("acme", "acme", "accl", "acme")
    assert northbridge.get("acme") is backend


class TestANameThatCannotBeHad:
    @pytest.mark.parametrize(
        ("name", "hint"),
        [
            *((each, "Did you mean 'cpu_sim'?") for each in ("cpu_simm", "cpusim", "CPU_SIM")),
            ("acne", "Did you mean 'acme'?"),  # the nearest of several
            ("hal9000", "`northbridge list` says more"),
        ],
    )
    def test_unknown_name_is_answered_with_the_nearest(self, name: str, hint: str, install_here: Install) -> None:
        install_here("acme", "no_hardware")

        with pytest.raises(northbridge.BackendNotFoundError) as caught:
            northbridge.get(name)

        assert str(caught.value) == f"no backend {name!r} is installed; found {', '.join(names())}. {hint}"
        assert caught.value.backend == name
        assert isinstance(caught.value, LookupError)

    @pytest.mark.parametrize(
        ("asked", "hint"),
        [
            ("quartz", "Fix: {quartz}"),
            ("quarz", "Did you mean 'quartz'? Fix: {quartz}"),
            ("Summit", "Did you mean 'quartz'? Fix: {quartz}"),
            ("summit-one", "Did you mean 'quartz'? Fix: {quartz}"),
            ("peak2", "Did you mean 'acme'?"),
            ("hill", "Did you mean 'acme' or 'quartz'? Fix: {quartz}"),
            ("shire", "Did you mean 'opal' or 'quartz'? Fix: {opal} or pip install . ./backends/quartz"),
            ("nobody", "`northbridge list` says more"),
        ],
    )
    def test_alias_is_answered_with_the_name(
        self, asked: str, hint: str, install_here: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        install_here("acme")
        separate = {
            "northbridge.distributions": {"quartz": "northbridge_quartz", "opal": "northbridge_opal"},
            "northbridge.aliases": {
                "summit-one": "northbridge_quartz",
                "shire-hill": "northbridge_quartz",
                "shire": "northbridge_opal",
                "nobody": "northbridge_nobody",
            },
        }
        write_distribution(tmp_path, "northbridge-other", "1.0", separate)
        aliases = {"northbridge.aliases": {"peak": "northbridge_acme", "hill": "northbridge_acme"}}
        write_distribution(tmp_path, "northbridge-further", "1.0", aliases)
        monkeypatch.syspath_prepend(tmp_path)

        with pytest.raises(northbridge.BackendNotFoundError) as caught:
            northbridge.get(asked)

        lines = {name: f"in a clone of Northbridge, pip install . ./backends/{name}" for name in ("quartz", "opal")}
        found = f"no backend {asked!r} is installed; found {', '.join(names())}. "
        assert str(caught.value) == found + hint.format(**lines)

    def test_if_nothing_is_installed_that_is_said(self, nothing_known: None, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(installed, "read_entry_points", lambda: EntryPoints(()))

        with pytest.raises(northbridge.BackendNotFoundError, match=r"is installed; found none\. `northbridge list`"):
            northbridge.get("cpu_sim")

    def test_a_name_that_a_plugin_may_not_have(self, install_here: Install) -> None:
        """It disturbs no other."""
        install_here("double_one", "double_two", "takes_cuda", "acme")

        with pytest.raises(northbridge.BackendConflictError) as twice:
            northbridge.get("double")
        with pytest.raises(northbridge.BackendNameError) as lightnings:
            northbridge.get("cuda")

        assert str(twice.value) == (
            "backend 'double' is installed twice: northbridge-double-one 1.0 and northbridge-double-two 2.0."
            " Fix: uninstall one"
        )
        assert str(lightnings.value) == (
            "northbridge-takes-cuda 1.2.3 calls its backend 'cuda', which is Lightning's own word. Fix:"
            " uninstall northbridge-takes-cuda"
        )
        assert (northbridge.get("cpu_sim").name, northbridge.get("acme").name) == ("cpu_sim", "acme")


class TestSwitchedOff:
    @pytest.mark.parametrize("value", ["acme", "double,acme", " acme , double ", "1"])
    def test_it_is_refused(self, value: str, install_here: Install, monkeypatch: pytest.MonkeyPatch) -> None:
        install_here("acme", "double_one")
        monkeypatch.setenv("NORTHBRIDGE_DISABLE", value)

        with pytest.raises(northbridge.BackendDisabledError) as caught:
            northbridge.get("acme")

        assert str(caught.value) == (
            "backend 'acme' (northbridge-acme 0.1.0) is disabled. Fix: remove 'acme' from NORTHBRIDGE_DISABLE"
        )
        assert describe("hal9000") == "backend 'hal9000'"

    def test_one_that_was_used_is_refused_too(self, install_here: Install, monkeypatch: pytest.MonkeyPatch) -> None:
        """It stays listed, and the others stay on; so is one that is claimed twice."""
        install_here("acme", "double_one", "double_two")
        northbridge.get("acme")
        monkeypatch.setenv("NORTHBRIDGE_DISABLE", "acme,double")

        for name in ("acme", "double"):
            with pytest.raises(northbridge.BackendDisabledError):
                northbridge.get(name)
        assert "acme" in names()
        assert northbridge.get("cpu_sim").name == "cpu_sim"

    def test_a_name_that_no_backend_has_is_refused(self, nothing_known: None, monkeypatch: pytest.MonkeyPatch) -> None:
        for value, unknown, hint in (
            ("CPU_SIM", "CPU_SIM", "Did you mean 'cpu_sim'?"),
            ("cpu_sim,acme", "acme", "`northbridge list` says more"),
        ):
            monkeypatch.setenv("NORTHBRIDGE_DISABLE", value)
            with pytest.raises(northbridge.SettingsError) as caught:
                northbridge.get("hpu")
            found = f"no backend {unknown!r} is installed; found {', '.join(names())}. {hint}"
            assert str(caught.value) == f"NORTHBRIDGE_DISABLE={value!r}: {found}"
            assert caught.value.variable == "NORTHBRIDGE_DISABLE"


class TestAvailable:
    def test_broken_plugins_are_left_out_and_the_record_says_why(self, install_here: Install) -> None:
        install_here("import_exits", "hook_missing", "double_one", "double_two", "takes_cuda", "load_needs_software")

        counts = northbridge.available()

        assert counts == {"cpu_sim": 8}
        reasons = {entry.subject: entry.reason for entry in northbridge.record()}
        broken = {"import_exits", "hook_missing", "double", "cuda"}
        assert set(reasons) == {*names()} - {"cpu_sim"} >= {*broken, "load_needs_software", "hpu", "sdaa"}
        assert "could not be imported: SystemExit" in reasons["import_exits"]
        assert "found none. Fix: upgrade northbridge-hook-missing" in reasons["hook_missing"]
        assert "Fix: uninstall one" in reasons["double"]
        assert "Lightning's own word" in reasons["cuda"]
        # This repository's own backends are among them, whose software is not here.
        assert {reason for name, reason in reasons.items() if name not in broken} == {"no hardware is present"}

    def test_one_that_is_off_is_left_out_and_told(self, nothing_known: None, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NORTHBRIDGE_DISABLE", "cpu_sim")

        assert "cpu_sim" not in northbridge.available()
        (reason,) = [entry.reason for entry in northbridge.record() if entry.subject == "cpu_sim"]
        assert "is disabled. Fix: remove" in reason


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"\xff", "UnicodeDecodeError: 'utf-8'"), (b"[acme]\nno equals sign\n", "TypeError: ")],
    ids=["binary", "broken"],
)
def test_entry_points_that_cannot_be_read_name_their_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, reason: str
) -> None:
    """Another distribution's: Python reads those of all distributions, or none."""
    write_distribution(tmp_path, "other", "1.0", {})
    points = tmp_path / "other-1.0.dist-info" / "entry_points.txt"
    points.write_bytes(content)
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(northbridge.InstallationError) as caught:
        northbridge.installed()

    assert str(caught.value).startswith(f"{points} cannot be read: {reason}")
    assert str(caught.value).endswith(". Fix: reinstall its distribution")
