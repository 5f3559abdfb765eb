"""Loading of the vendor's software."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection
from dataclasses import asdict
from importlib.util import find_spec

import northbridge
from northbridge_npu.cards import Table, count_cards
from northbridge_npu.settings import NPUSettings

_AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
_LIBRARY = re.compile(r"\blib\w+\.so[.\d]*")


class NPUBridge(northbridge.Bridge):
    """Loads ``torch_npu``, which needs the vendor's toolkit CANN."""

    package = "torch_npu"
    compile_backend: str | None = "npugraph_ex"

    def check_count(self, count: int) -> None:
        if find_spec("torch_npu") is not None:
            NPUSettings.read().reject_absent(count)

    def check_environment(self) -> None:
        NPUSettings.read().reject_disorder()

    def load(self) -> None:
        """Import ``torch_npu``, and restore torch's switch for entry points.

        The import sets the switch to 0. Releases differ in whether they restore it, also if a script has imported
        torch_npu before torch; with 0, the ranks that this process starts would not find their backend.
        """
        imported = {_AUTOLOAD: "0"} if "torch_npu" in sys.modules else None
        with northbridge.keep_environment([_AUTOLOAD], written=imported):
            try:
                import torch_npu  # noqa: F401 - it makes npu a device of torch
            except ImportError as error:
                library = _LIBRARY.search(str(error))
                if library is None:
                    raise
                raise northbridge.SoftwareMissingError(
                    f"backend 'npu': torch_npu finds no {library[0]}, a library of CANN. Fix: install CANN, and"
                    " `source set_env.sh` of it",
                    backend="npu",
                ) from error

    def count_cards(self, devices: Collection[int], *, total: int) -> int | None:
        return count_cards(devices, total)

    def describe_machine(self) -> dict[str, object]:
        table = Table.read()
        if table is None:
            return {"cards": "unknown: npu-smi is not installed"}
        return {
            "npu-smi": table.version,
            "cards": len({each.card for each in table.chips}),
            "chips": [asdict(each) for each in table.chips],
            "processes": table.processes,
        }
