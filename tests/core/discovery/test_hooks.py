"""Plugins that are broken before their use, and the user's errors."""

from __future__ import annotations

import re
from importlib.metadata import Distribution
from pathlib import Path

import pytest
from tests.core.broken_plugins import write_distribution
from tests.core.conftest import Install

import northbridge
from northbridge.discovery.hooks import declare

ADAPT = "Fix: upgrade {plugin}"
REMOVE = "Fix: upgrade or uninstall {plugin}"
HOOK = "has no hook 'northbridge_backend'; found"
BROKEN: dict[type[northbridge.BackendError], dict[str, str]] = {
    northbridge.PluginImportError: {
        "import_raises": f"{{who}} could not be imported: RuntimeError: libacme.so.3 wants GLIBC_2.99. {REMOVE}",
        "module_gone": "{who} lacks module 'northbridge_module_gone'. Fix: reinstall {plugin}",
    },
    northbridge.SoftwareMissingError: {
        "import_needs_software": "{who} needs 'torch_import_needs_software', which is not installed. Fix: install it"
        " (a plugin should import it in Bridge.load())",
    },
    northbridge.PluginHookError: {
        "hook_missing": f"{{who}}: {{module}} {HOOK} none. {ADAPT}",
        "hook_undecorated": f"{{who}}: {{module}} {HOOK} a function northbridge_backend() without @northbridge.hookimpl"
        f" above it. {ADAPT}",
        "hook_misspelt": f"{{who}}: {{module}} {HOOK} 'northbridge_backends', which looks misspelt. {ADAPT}",
        "hook_takes_arguments": "{who}: northbridge_backend() must accept no arguments: Argument(s) {{'config'}} are"
        f" declared in the hookimpl but can not be found in the hookspec. {ADAPT}",
        "hook_returns_dict": "{who}: northbridge_backend() must return a Backend, found"
        f" {{{{'name': 'hook_returns_dict'}}}}. {ADAPT}",
        "hook_raises": f"{{who}}: northbridge_backend() raised OSError: /etc/acme.conf is not readable. {REMOVE}",
    },
    northbridge.PluginAPIError: {
        "newer_api": "{who} needs plugin API 2, not 1. Fix: upgrade Northbridge",
        "text_api": f"{{who}} has api='1', not a whole number. {ADAPT}",
        "older_api": f"{{who}} needs plugin API 0, not 1. {ADAPT}",
    },
    northbridge.PluginNameError: {
        "other_name": "{plugin} 1.2.3 announces backend 'other_name' but declares 'another_name'. Fix: its vendor must"
        " use one name",
    },
}


@pytest.mark.parametrize(
    ("kind", "name", "message"), [(kind, *row) for kind, rows in BROKEN.items() for row in rows.items()]
)
def test_a_broken_plugin_is_refused_with_its_origin_and_the_cure(
    kind: type[northbridge.BackendError], name: str, message: str, install_here: Install
) -> None:
    """Each time alike, and without a harm to the others."""
    install_here(name, "acme")
    plugin = f"northbridge-{name.replace('_', '-')}"
    who, module = f"backend {name!r} ({plugin} 1.2.3)", repr(f"northbridge_{name}")

    for _ in range(2):
        with pytest.raises((northbridge.PluginError, northbridge.SoftwareMissingError)) as caught:
            northbridge.get(name)
        assert (type(caught.value), caught.value.backend) == (kind, name)
        assert str(caught.value) == message.format(who=who, plugin=plugin, module=module)

    assert {"acme", "cpu_sim", name} <= {plugin.name for plugin in northbridge.installed()}
    assert [northbridge.get(each).name for each in ("cpu_sim", "acme")] == ["cpu_sim", "acme"]


SOURCE = "import northbridge\n\n@northbridge.hookimpl\ndef northbridge_backend():\n    "
RARELY_BROKEN = {
    "a panic that is not an Exception": (
        "class PanicException(BaseException): ...\nraise PanicException('called `unwrap()` on a `None` value')",
        "PanicException: called `unwrap()` on a `None` value. Fix: upgrade or uninstall",
    ),
    "an object in the place of the module": (
        "import sys\nclass Facade:\n    def __getattr__(self, _): raise RuntimeError\nsys.modules[__name__] = Facade()",
        "replaced its module by a Facade",
    ),
    "software that is there and does not import": (
        "raise ImportError('libacme.so: cannot open shared object')",
        "could not be imported: ImportError: libacme.so: cannot open shared object. Fix: upgrade",
    ),
    "a module of its own that is gone": (
        "import northbridge_written.device",
        "(northbridge-written 0.5) lacks module 'northbridge_written.device'. Fix: reinstall northbridge-written",
    ),
    "a hook that ends the process": (
        f"{SOURCE}raise SystemExit(3)",
        "northbridge_backend() raised SystemExit: 3. Fix: upgrade",
    ),
    "a part of the wrong kind": (
        f"{SOURCE}return northbridge.Backend('written', 'cards', None, None)",
        "raised TypeError: Backend('written', …): device must be a northbridge.Device, found 'cards'. Fix: upgrade",
    ),
}


@pytest.fixture
def plugin(tmp_path: Path, install_here: Install, monkeypatch: pytest.MonkeyPatch) -> northbridge.Plugin:
    """One that is written here: for the rarer ways to be broken no distribution is kept."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "northbridge_written").mkdir()
    write_distribution(tmp_path, "northbridge-written", "0.5", {})
    return northbridge.Plugin(
        "written", "northbridge_written", Distribution.at(tmp_path / "northbridge_written-0.5.dist-info")
    )


@pytest.mark.parametrize(("source", "words"), RARELY_BROKEN.values(), ids=RARELY_BROKEN)
def test_rarely_broken_plugin_is_refused(plugin: northbridge.Plugin, tmp_path: Path, source: str, words: str) -> None:
    (tmp_path / "northbridge_written" / "__init__.py").write_text(f"{source}\n")
    kind = northbridge.PluginHookError if SOURCE in source else northbridge.PluginImportError

    with pytest.raises(kind, match=re.escape(words)):
        declare(plugin)


def test_ctrl_c_during_the_import(plugin: northbridge.Plugin, tmp_path: Path) -> None:
    (tmp_path / "northbridge_written" / "__init__.py").write_text("raise KeyboardInterrupt\n")

    with pytest.raises(KeyboardInterrupt):
        declare(plugin)
