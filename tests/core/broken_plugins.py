"""The plugins that are broken, or whose hardware or software is: one table, and how a distribution is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_PLUGIN = """
import os, signal, sys, threading
from types import ModuleType

import northbridge


class Card(northbridge.Device):
    type = "{name}"
{device}

class CCL(northbridge.Collective):
    name = "{name}_ccl"


class Software(northbridge.Bridge):
    {bridge}

    def load(self) -> None:
        {load}


{hook} -> northbridge.Backend:
    return northbridge.Backend("{name}", Card(), CCL(), Software(){more})
"""
_REGISTER = """import torch

        torch.utils.rename_privateuse1_backend("{name}")
        torch._register_device_module("{name}", ModuleType("{name}"))"""
_MARKER = "@northbridge.hookimpl\n"
_HOOK = f"{_MARKER}def northbridge_backend()"
_NO_CONTRACT = """vendor = "Misspelt"
packages = ["torch_contract_misspelt"]

[[symbol]]
name = "torch_contract_misspelt"
kind = "modul"
meaning = "what registers the device"
since = "2.0"
evidence = "read"
source = "https://misspelt.example/docs"
"""
_BACKENDS, _SIMULATIONS = "northbridge.backends", "northbridge.simulations"
_OF_GROUP = {_BACKENDS: "northbridge_backend", _SIMULATIONS: "northbridge_simulation"}


@dataclass(frozen=True)
class BrokenPlugin:
    """A distribution of one package, ``northbridge_<key>``, that announces one name."""

    source: str
    """The text of its module."""
    announces: str
    group: str = _BACKENDS
    version: str = "1.2.3"
    beside: tuple[str, str] | None = None
    """The name of a file in the package's folder, and its text."""
    module: str = ""
    """The module's name where it is not the one that the entry point says."""

    def write(self, site: Path, key: str) -> None:
        """Write the distribution into the folder ``site``."""
        package = self.module or f"northbridge_{key}"
        files = {f"{package}/__init__.py": self.source}
        if self.beside:
            name, text = self.beside
            files[f"{package}/{name}"] = text
        points = {self.group: {self.announces: f"northbridge_{key}"}}
        write_distribution(site, f"northbridge-{key.replace('_', '-')}", self.version, points, files)


def _plugin(
    name: str,
    *,
    load: str = _REGISTER,
    device: str = "",
    bridge: str = "",
    hook: str = _HOOK,
    more: str = "",
    announces: str = "",
    version: str = "1.2.3",
    beside: tuple[str, str] | None = None,
) -> BrokenPlugin:
    source = _PLUGIN.format(name=name, load=load.format(name=name), device=device, bridge=bridge, hook=hook, more=more)
    return BrokenPlugin(source, announces or name, version=version, beside=beside)


def _hook(announces: str, body: str, group: str = _BACKENDS, *, beside: tuple[str, str] | None = None) -> BrokenPlugin:
    source = f"import northbridge\n\n\n{_MARKER}def {_OF_GROUP[group]}():\n    {body}\n"
    return BrokenPlugin(source, announces, group, beside=beside)


PLUGINS: Mapping[str, BrokenPlugin] = {
    "module_gone": BrokenPlugin("", "module_gone", module="northbridge_module_renamed"),
    "import_raises": BrokenPlugin('raise RuntimeError("libacme.so.3 wants GLIBC_2.99")', "import_raises"),
    "import_exits": BrokenPlugin('import sys\nsys.exit("no licence for this machine")', "import_exits"),
    "import_needs_software": BrokenPlugin("import torch_import_needs_software", "import_needs_software"),
    "hook_missing": BrokenPlugin('"""A plugin that forgot its hook."""', "hook_missing"),
    "hook_misspelt": _plugin("hook_misspelt", hook=f"{_MARKER}def northbridge_backends()"),
    "hook_undecorated": _plugin("hook_undecorated", hook="def northbridge_backend()"),
    "hook_takes_arguments": _plugin(
        "hook_takes_arguments", hook=f"{_MARKER}def northbridge_backend(config: dict[str, str])"
    ),
    "hook_raises": _hook("hook_raises", 'raise OSError("/etc/acme.conf is not readable")'),
    "hook_returns_dict": _hook("hook_returns_dict", 'return {"name": "hook_returns_dict"}'),
    "older_api": _plugin("older_api", more=", api=0"),
    "text_api": _plugin("text_api", more=', api="1"'),
    "newer_api": _plugin("newer_api", more=", api=2"),
    "other_name": _plugin("another_name", announces="other_name"),
    "takes_cuda": _plugin("cuda"),
    "double_one": _plugin("double", version="1.0"),
    "double_two": _plugin("double", version="2.0"),
    "load_raises": _plugin("load_raises", load='raise OSError("libacme.so.3: undefined symbol: _ZN2at4meltE")'),
    "load_exits": _plugin("load_exits", load='sys.exit("no licence for this machine")'),
    "load_hangs": _plugin("load_hangs", load="threading.Event().wait()"),
    "load_registers_nothing": _plugin("load_registers_nothing", load="import json"),
    "load_needs_software": _plugin(
        "load_needs_software", load="import torch_{name}", bridge='package = "torch_load_needs_software"'
    ),
    "no_hardware": _plugin("no_hardware", device="\n    def count(self) -> int:\n        return 0\n"),
    "probe_crashes": _plugin("probe_crashes", load="os.kill(os.getpid(), signal.SIGSEGV)"),
    "probe_exits": _plugin(
        "probe_exits",
        load='print("acme: firmware 0x0 is not supported", file=sys.stderr, flush=True); os._exit(7)',
    ),
    "detect_hangs": _plugin("detect_hangs", bridge="def detect(self) -> int:\n        threading.Event().wait()"),
    "contract_misspelt": _plugin(
        "contract_misspelt",
        bridge="def detect(self) -> int:\n        return 1",
        more=", northbridge.Capabilities(auto=False)",  # not for auto: tests count whom it could choose
        beside=("contract.toml", _NO_CONTRACT),
    ),
    "stood_in_too": _hook("stood_in", "return northbridge.Simulation({})", _SIMULATIONS),
    "stand_in_raises": _hook(
        "acme",
        "from pathlib import Path\n"
        '    stand_in = Path(__file__).with_name("torch_anvil.py")\n'
        '    return northbridge.Simulation({"torch_anvil": stand_in}, autoloads=("torch_anvil",))',
        _SIMULATIONS,
        beside=("torch_anvil.py", 'raise OSError("libanvil.so.3 is not there")\n'),
    ),
}
"""Plugins with the fault in their names; the rest is right."""


def write_distribution(
    site: Path,
    name: str,
    version: str,
    entry_points: Mapping[str, Mapping[str, str]],
    files: Mapping[str, str] | None = None,
) -> None:
    """Write ``files`` into the folder ``site``, and the metadata of an installed distribution beside them."""
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    announced = "\n".join(
        f"[{group}]\n" + "".join(f"{point} = {module}\n" for point, module in points.items())
        for group, points in entry_points.items()
    )
    metadata = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\nRequires-Dist: northbridge\n"
    written = {**(files or {}), f"{info}/METADATA": metadata, f"{info}/entry_points.txt": announced}
    for path, text in written.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)


def write_plugin(site: Path, name: str, body: str) -> None:
    """Write a plugin that counts two devices, unless ``body``, which stands before its hook, changes it."""
    source = _plugin(name, bridge="def detect(self) -> int:\n        return 2", hook=f"{body}\n\n\n{_HOOK}").source
    points = {_BACKENDS: {name: f"northbridge_{name}"}}
    write_distribution(site, name, "1.0", points, {f"northbridge_{name}.py": source})
