"""``fabric run --accelerator=NAME``: Lightning's command knows its own accelerators alone.

Called when that command's module has been imported, which a script never does. Beside the table of corrections this is
the one place that changes Lightning.
"""

from __future__ import annotations

from typing import Any

from northbridge.discovery.installed import names
from northbridge.lightning.accelerators.accelerator import load_with_hardware
from northbridge.lightning.classes import classes
from northbridge.lightning.namespaces import NAMESPACES
from northbridge.process_record import note


def serve_command(namespace_name: str) -> None:
    """Let the command of the Fabric ``namespace_name`` take the installed backends, and count their devices."""
    namespace = NAMESPACES[namespace_name]
    module = namespace.module("cli")
    run = getattr(getattr(module, "_main", None), "commands", {}).get("run")
    options = [each for each in getattr(run, "params", ()) if each.name == "accelerator"]
    if not options or not hasattr(module, "_get_num_processes"):
        note(
            namespace_name,
            "command left alone",
            "`fabric run` is not what Northbridge knows: set LT_ACCELERATOR instead",
        )
        return
    for option in options:
        known = list(option.type.choices)
        option.type = type(option.type)([*known, *(name for name in names() if name not in known)])
    count = module._get_num_processes

    def count_processes(accelerator: Any, devices: str) -> int:
        if accelerator not in names():
            return int(count(accelerator, devices))
        load_with_hardware(accelerator)
        chip = classes(namespace).accelerator.of(accelerator)
        return int(chip.auto_device_count()) if devices == "auto" else len(chip.parse_devices(devices))

    module._get_num_processes = count_processes
