"""Stands in for Kelvin's torch plugin: importing it makes the simulated chip a Kelvin K1."""

from pathlib import Path

import northbridge_cpu_sim
from northbridge_kelvin.settings import KelvinSettings

_device = northbridge_cpu_sim.SimulatedDevice.read(Path(__file__).parents[1] / "device.toml")
_cards = range(_device.as_set().count)
_named = KelvinSettings.read().kelvin_visible_devices

northbridge_cpu_sim.install(_device, visible=len(_cards if _named is None else set(_cards).intersection(_named)))
