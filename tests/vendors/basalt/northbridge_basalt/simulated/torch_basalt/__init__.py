"""Stands in for the vendor's torch plugin: its import makes the simulated chip a Basalt B1."""

from pathlib import Path

import northbridge_cpu_sim

from northbridge_basalt.settings import ChipSettings

_device = northbridge_cpu_sim.SimulatedDevice.read(Path(__file__).parents[1] / "device.toml")
_cards = range(_device.as_set().count)
_named = ChipSettings.read().basalt_visible_devices

northbridge_cpu_sim.install(_device, visible=len(_cards if _named is None else set(_cards).intersection(_named)))
