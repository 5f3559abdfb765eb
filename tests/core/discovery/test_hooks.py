"""Plugins that are broken before their use, and the user's errors."""

from __future__ import annotations

import pickle
from importlib.metadata import Distribution
from pathlib import Path

import pytest
from tests.core.broken_plugins import write_distribution
from tests.core.conftest import Install

import northbridge
from northbridge.discovery.hooks import declare

BROKEN: dict[str, tuple[type[northbridge.BackendError], str]] = {
    "import_raises": (
        northbridge.PluginImportError,
        (
            "backend 'import_raises' (northbridge-import-raises 1.2.3) could not be imported: RuntimeError:"
            " libacme.so.3 wants GLIBC_2.99. Fix: upgrade or uninstall northbridge-import-raises"
        ),
    ),
    "import_exits": (
        northbridge.PluginImportError,
        (
            "backend 'import_exits' (northbridge-import-exits 1.2.3) could not be imported: SystemExit: no"
            " licence for this machine. Fix: upgrade or uninstall northbridge-import-exits"
        ),
    ),
    "import_needs_software": (
        northbridge.SoftwareMissingError,
        (
            "backend 'import_needs_software' (northbridge-import-needs-software 1.2.3) needs"
            " 'torch_import_needs_software',"
            " which is not installed. Fix: install it (a plugin should import it in Bridge.load())"
        ),
    ),
    "module_gone": (
        northbridge.PluginImportError,
        (
            "backend 'module_gone' (northbridge-module-gone 1.2.3) lacks module 'northbridge_module_gone'."
            " Fix: reinstall northbridge-module-gone"
        ),
    ),
    "hook_missing": (
        northbridge.PluginHookError,
        (
            "backend 'hook_missing' (northbridge-hook-missing 1.2.3): 'northbridge_hook_missing' has no hook"
            " 'northbridge_backend'; found none. Fix: upgrade northbridge-hook-missing"
        ),
    ),
    "hook_undecorated": (
        northbridge.PluginHookError,
        (
            "backend 'hook_undecorated' (northbridge-hook-undecorated 1.2.3): 'northbridge_hook_undecorated'"
            " has no hook 'northbridge_backend'; found a function northbridge_backend() without @northbridge.hookimpl"
            " above it. Fix: upgrade northbridge-hook-undecorated"
        ),
    ),
    "hook_misspelt": (
        northbridge.PluginHookError,
        (
            "backend 'hook_misspelt' (northbridge-hook-misspelt 1.2.3): 'northbridge_hook_misspelt' has no"
            " hook 'northbridge_backend'; found 'northbridge_backends', which looks misspelt. Fix: upgrade"
            " northbridge-hook-misspelt"
        ),
    ),
    "hook_takes_arguments": (
        northbridge.PluginHookError,
        (
            "backend 'hook_takes_arguments' (northbridge-hook-takes-arguments 1.2.3): northbridge_backend()"
            " must accept no arguments: Argument(s) {'config'} are declared in the hookimpl but can not be"
            " found in the hookspec. Fix: upgrade northbridge-hook-takes-arguments"
        ),
    ),
    "hook_returns_dict": (
        northbridge.PluginHookError,
        (
            "backend 'hook_returns_dict' (northbridge-hook-returns-dict 1.2.3): northbridge_backend() must"
            " return a Backend, found {'name': 'hook_returns_dict'}. Fix: upgrade northbridge-hook-returns-dict"
        ),
    ),
    "hook_raises": (
        northbridge.PluginHookError,
        (
            "backend 'hook_raises' (northbridge-hook-raises 1.2.3): northbridge_backend() raised OSError:"
            " /etc/acme.conf is not readable. Fix: upgrade or uninstall northbridge-hook-raises"
        ),
    ),
    "newer_api": (
        northbridge.PluginAPIError,
        ("backend 'newer_api' (northbridge-newer-api 1.2.3) needs plugin API 2, not 1. Fix: upgrade Northbridge"),
    ),
    "text_api": (
        northbridge.PluginAPIError,
        (
            "backend 'text_api' (northbridge-text-api 1.2.3) has api='1', not a whole number. Fix: upgrade"
            " northbridge-text-api"
        ),
    ),
    "older_api": (
        northbridge.PluginAPIError,
        (
            "backend 'older_api' (northbridge-older-api 1.2.3) needs plugin API 0, not 1. Fix: upgrade"
            " northbridge-older-api"
        ),
    ),
    "other_name": (
        northbridge.PluginNameError,
        (
            "northbridge-other-name 1.2.3 announces backend 'other_name' but declares 'another_name'. Fix:"
            " its vendor must use one name"
        ),
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plugin_is_refused_with_its_origin_and_the_cure(name: str, install_here: Install) -> None:
    install_here(name)
    kind, message = BROKEN[name]

    with pytest.raises(northbridge.BackendError) as caught:
        northbridge.get(name)

    assert type(caught.value) is kind
    assert str(caught.value) == message
    assert caught.value.backend == name
    assert isinstance(caught.value, northbridge.PluginError | northbridge.SoftwareMissingError)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_plugin_is_refused_alike_again(name: str, install_here: Install) -> None:
    install_here(name)
    for _ in range(2):
        with pytest.raises(BROKEN[name][0]) as caught:
            northbridge.get(name)

        assert str(caught.value) == BROKEN[name][1]


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plugin_does_not_disturb_the_others(name: str, install_here: Install) -> None:
    install_here(name, "acme")
    with pytest.raises(BROKEN[name][0]):
        northbridge.get(name)

    assert {"acme", "cpu_sim", name} <= {plugin.name for plugin in northbridge.installed()}
    assert northbridge.get("cpu_sim").name == "cpu_sim"
    assert northbridge.get("acme").name == "acme"


def test_plugins_own_error_is_the_cause(install_here: Install) -> None:
    install_here("import_raises")

    with pytest.raises(northbridge.PluginImportError) as caught:
        northbridge.get("import_raises")

    assert isinstance(caught.value.__cause__, RuntimeError)


def test_the_error_comes_home_from_a_rank_with_its_backend(install_here: Install) -> None:
    install_here("import_raises")
    with pytest.raises(northbridge.PluginImportError) as caught:
        northbridge.get("import_raises")

    home = pickle.loads(pickle.dumps(caught.value))

    assert (type(home), str(home), home.backend) == (northbridge.PluginImportError, str(caught.value), "import_raises")


HOOK = "import northbridge\n\n@northbridge.hookimpl\ndef northbridge_backend():\n    "
RARELY_BROKEN = {
    "a panic that is not an Exception": (
        "class PanicException(BaseException): ...\nraise PanicException('called `unwrap()` on a `None` value')",
        "PanicException: called `unwrap()` on a `None` value. Fix: upgrade or uninstall",
    ),
    "an error whose text cannot be read": (
        "class Broken(Exception):\n    def __str__(self): raise ValueError('no text')\nraise Broken",
        "Broken: (its text cannot be read: ValueError). Fix: up",
    ),
    "an error that goes on and on": (
        "raise RuntimeError('y' * 5000)",
        f"RuntimeError: {'y' * 199}…. Fix: upgrade or uninstall",
    ),
    "an object in the place of the module": (
        "import sys\nclass Facade:\n    def __getattr__(self, _): raise RuntimeError\nsys.modules[__name__] = Facade()",
        "replaced its module by a Facade",
    ),
    "software that is there and does not import": (
        "raise ImportError('libacme.so: cannot open shared object')",
        "could not be imported: ImportError: libacme.so: cannot open shared object. Fix: upgrade",
    ),
    "an error of many lines": ("raise ValueError('one\\n   two\\n')", "ValueError: one two. Fix: upgrade"),
    "an error without a text": ("raise AssertionError", "could not be imported: AssertionError. Fix: upgrade"),
    "a hook that returns nothing": (
        f"{HOOK}pass",
        "northbridge_backend() must return a Backend, found None. Fix: upgrade",
    ),
    "a hook that ends the process": (
        f"{HOOK}raise SystemExit(3)",
        "northbridge_backend() raised SystemExit: 3. Fix: upgrade",
    ),
    "a part of the wrong kind": (
        f"{HOOK}return northbridge.Backend('written', 'cards', None, None)",
        "raised TypeError: Backend('written', …): device must be a northbridge.Device, found 'cards'. Fix: upgrade",
    ),
}


class TestAPluginWrittenHere:
    """The rarer ways to be broken, for which no distribution is kept."""

    @pytest.fixture
    def plugin(self, tmp_path: Path, install_here: Install, monkeypatch: pytest.MonkeyPatch) -> northbridge.Plugin:
        monkeypatch.syspath_prepend(tmp_path)
        (tmp_path / "northbridge_written").mkdir()
        write_distribution(tmp_path, "northbridge-written", "0.5", {})
        return northbridge.Plugin(
            "written", "northbridge_written", Distribution.at(tmp_path / "northbridge_written-0.5.dist-info")
        )

    @pytest.mark.parametrize(("source", "words"), RARELY_BROKEN.values(), ids=RARELY_BROKEN)
    def test_it_is_refused(self, plugin: northbridge.Plugin, tmp_path: Path, source: str, words: str) -> None:
        (tmp_path / "northbridge_written" / "__init__.py").write_text(f"{source}\n")

        with pytest.raises(northbridge.PluginHookError if HOOK in source else northbridge.PluginImportError) as caught:
            declare(plugin)

        assert words in str(caught.value)

    def test_a_module_of_its_own_that_is_gone(self, plugin: northbridge.Plugin, tmp_path: Path) -> None:
        (tmp_path / "northbridge_written" / "__init__.py").write_text("import northbridge_written.device\n")

        with pytest.raises(northbridge.PluginImportError) as caught:
            declare(plugin)

        assert str(caught.value) == (
            "backend 'written' (northbridge-written 0.5) lacks module 'northbridge_written.device'."
            " Fix: reinstall northbridge-written"
        )

    def test_ctrl_c_during_the_import(self, plugin: northbridge.Plugin, tmp_path: Path) -> None:
        (tmp_path / "northbridge_written" / "__init__.py").write_text("raise KeyboardInterrupt\n")

        with pytest.raises(KeyboardInterrupt):
            declare(plugin)
