"""Loading of the vendor's software, and its step markers."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib.metadata import distributions
from importlib.util import find_spec
from types import MappingProxyType

import northbridge
import northbridge_hpu.cards as cards
from northbridge_hpu.settings import HPUSettings

_WRITTEN_BY_IMPORT = ("MASTER_ADDR", "MASTER_PORT", "HLS_MODULE_ID", "ID")
"""Variables that the vendor's import sets. MASTER_PORT=12345 would be the same for every job on a machine."""


class HPUBridge(northbridge.Bridge):
    """Loads ``habana_frameworks.torch``, chooses the card by its module id, and marks steps in lazy mode."""

    package = "habana_frameworks"
    compile_backend: str | None = "hpu_backend"
    missing_compile_backends: Mapping[str, str] = MappingProxyType({"inductor": "it generates no code for Gaudi"})

    def __init__(self) -> None:
        self._mark: Callable[[], None] = _mark_nothing  # not a lambda: a bridge is pickled

    def detect(self) -> int | None:
        if find_spec("habana_frameworks") is None:
            return 0
        return len(cards.visible_modules()) if cards.can_be_asked() else super().detect()

    def check_environment(self) -> None:
        settings = HPUSettings.read()
        settings.reject_misleading_switches()
        meant = settings.habana_visible_devices
        seen = len(cards.modules()) if isinstance(meant, tuple) and cards.can_be_asked() else 0
        if isinstance(meant, tuple) and seen > len(meant):
            warnings.warn(
                f"HABANA_VISIBLE_DEVICES={','.join(map(str, meant))} is read by the container runtime only: this"
                f" process sees {seen} cards. Fix: set HABANA_VISIBLE_MODULES",
                stacklevel=2,
            )

    def prepare(self) -> None:
        for name in ("HABANA_VISIBLE_MODULES", "HLS_MODULE_ID"):
            if os.environ.get(name) == "":
                del os.environ[name]  # the vendor's import would parse it as a number
        # In lazy mode it patches torch.nn.Module, under which a Fabric's wrapper loses its attributes.
        os.environ.setdefault("PT_HPU_WEIGHT_SHARING", "0")

    def load(self) -> None:
        # From 1.19 on, `import torch` imports it in eager mode. An import that failed has left some of its modules.
        imported = any(name.startswith("habana_frameworks.torch") for name in sys.modules)
        with northbridge.keep_environment(_WRITTEN_BY_IMPORT, written=_imports_own() if imported else None):
            import habana_frameworks.torch  # first: after a failed import, its modules are there without it
            import habana_frameworks.torch.core
            import habana_frameworks.torch.distributed.hccl

        # The default differs between releases: only the software itself knows it.
        if habana_frameworks.torch.core.is_lazy():
            self._mark = habana_frameworks.torch.core.mark_step
            self.compile_backend = None
            no_graphs = {"hpu_backend": "lazy mode makes graphs by itself, and PT_HPU_LAZY_MODE=0 chooses eager mode"}
            self.missing_compile_backends = {**self.missing_compile_backends, **no_graphs}

    def prepare_rank(self, *, index: int, local_rank: int, world_size: int) -> None:
        settings = HPUSettings.read()
        if world_size == 1 and index == 0 and settings.habana_visible_modules is None and not cards.can_be_asked():
            return  # the vendor takes the card of HLS_MODULE_ID, or the first free one
        modules = cards.visible_modules()
        if world_size > 1:
            settings.reject_unknown_subset(modules)
        if index >= len(modules):
            raise northbridge.DevicesError(
                f"no device {index} of 'hpu': HABANA_VISIBLE_MODULES={','.join(map(str, modules))!r}. Fix:"
                " name more there"
            )
        if settings.hls_module_id is None:
            HPUSettings.write("hls_module_id", str(modules[index]))
        else:
            settings.reject_module_of_another(modules[index], modules, alone=world_size == 1 and index == 0)
        if settings.habana_visible_modules is None:
            # If it is set, a used card is an error; if not, the vendor takes any other card instead.
            HPUSettings.write("habana_visible_modules", ",".join(map(str, modules)))

    def after_backward(self) -> None:
        self._mark()

    def after_step(self) -> None:
        self._mark()

    def after_evaluation(self) -> None:
        self._mark()

    def describe_machine(self) -> dict[str, object]:
        _check_distribution()
        if not cards.can_be_asked():
            return {"cards": "unknown: habana-pyhlml is not installed"}
        order = {module: device for device, module in enumerate(cards.visible_modules())}
        return {
            **cards.versions(),
            "cards": [{"device": order.get(card.module), **asdict(card)} for card in cards.cards()],
            "processes": {
                str(pid): f"holds card {index}: {command}"
                for pid, (index, command) in northbridge.device_users(cards.DEVICE_FILE).items()
            },
        }


def _check_distribution() -> None:
    """Raise if habana-torch-plugin, a name that is free on the public index, is not the vendor's package."""
    for found in distributions(name="habana-torch-plugin"):
        # Release and build, in the form of python_packages/setup.py of github.com/HabanaAI/gaudi-pytorch-bridge.
        wrong = "" if re.fullmatch(r"\d+(\.\d+){3}(\+.*)?", str(found.version)) else "its version is unlike 1.24.1.482"
        packages = (found.read_text("top_level.txt") or "").split() + [file.parts[0] for file in found.files or ()]
        wrong = wrong if "habana_frameworks" in packages else "it brings no habana_frameworks"
        if wrong:
            raise northbridge.SoftwareMissingError(
                f"habana-torch-plugin {found.version} is not the vendor's: {wrong}."
                " Fix: uninstall it, and install the vendor's as docs.habana.ai says",
                backend="hpu",
            )


def _mark_nothing() -> None:
    """Do nothing: eager mode has no marker."""


def _imports_own() -> dict[str, str | None]:
    """Return the values that the vendor's import sets in this process if the variables are unset."""
    rank, visible = os.environ.get("LOCAL_RANK", ""), os.environ.get("HABANA_VISIBLE_MODULES", "")
    modules = {str(number): module for number, module in enumerate(visible.split(",")) if module}
    alone = os.environ.get("WORLD_SIZE", "1") == "1"
    port = "12345"
    # Scripts set the two together, and often to localhost too: of an import that came with torch they know nothing.
    scripts_port = os.environ.get("MASTER_PORT") not in (port, northbridge.environment_at_start().get("MASTER_PORT"))
    return {
        "MASTER_ADDR": None if scripts_port else "localhost",
        "MASTER_PORT": port,
        "HLS_MODULE_ID": None if alone else modules.get(rank, rank),
        "ID": os.environ.get("RANK"),
    }
