"""Faults in counting and selecting devices."""

import atexit
import os
import tempfile
from pathlib import Path

import northbridge
import northbridge_right as right
from northbridge_right import torch


@right.wrong("C1/Placement/test_the_selected_device_is_the_current_one")
class SetDeviceIgnored(right.Device):
    """set_device is ignored."""

    def select(self, index: int) -> None:
        super().select(0)


@right.wrong("C1/Placement/test_every_counted_device_computes")
class DevicesRenumbered(right.Device):
    """Devices are renumbered."""

    def root(self, index: int):
        return super().root(self.count() - 1 - index)


@right.wrong("C0/Detection/test_loaded_device_count_equals_detection")
class CountWrong(right.Device):
    """The device count is wrong."""

    def count(self) -> int:
        return super().count() - 1


@right.wrong("C1/Placement/test_device_call_keeps_the_current_device[memory_stats]")
class StatisticsMove(right.Device):
    """Reading a device's memory selects it."""

    def memory_stats(self, index):
        self.module.set_device(index)
        return super().memory_stats(index)


@right.caught_by("C1/Placement/test_mixing_device_and_cpu_tensors_raises")
@right.instead_of("torch.add")
def sum_over_two_devices(add, given, other, **named):
    """The sum of a chip's and a CPU's tensor gives a number."""
    if isinstance(other, torch.Tensor) and given.device.type == right.Device.type:
        other = other.to(given.device)
    return add(given, other, **named)


@right.caught_by("C1/Placement/test_mixing_device_and_cpu_tensors_raises")
def device_checks_hidden():
    """Device checks are denied, and there."""


right.announce(
    "device_checks_hidden", claims=right.capabilities(device_checks=northbridge.no("its kernels take any tensor"))
)


@right.wrong("C3/LastDevices/test_root_device_is_the_current_device[two devices-lightning.pytorch]")
class LocalRankSelected(right.Device):
    """A rank selects the device of its LOCAL_RANK."""

    def select(self, index):
        super().select(int(os.environ.get("LOCAL_RANK", index)))


@right.wrong("C3/LastDevices/test_root_device_is_the_current_device[two devices-lightning.pytorch]")
class FirstWorkersCard(right.Device):
    """A Ray worker of local rank 0 is on another's card, the first."""

    def select(self, index: int) -> None:
        super().select(0 if os.environ.get("LOCAL_RANK") == "0" else index)


@right.wrong("C4/Launches/test_a_trainer_is_started_by_an_external_launcher[two nodes]")
class NodesCountedOn(right.Device):
    """The second node continues the first node's device indices."""

    def select(self, index: int) -> None:
        super().select((index + int(os.environ.get("NODE_RANK", "0"))) % self.count())


@right.wrong("C4/Restarts/test_restarted_weights_equal_those_of_an_uninterrupted_run")
class CardStaysTaken(right.Device):
    """The card of a killed process stays busy."""

    def select(self, index: int) -> None:
        held = Path(tempfile.gettempdir(), f"fairchip-{os.getppid()}-{index}")
        try:
            held.touch(exist_ok=held.exists() and held.read_text() == str(os.getpid()))
        except FileExistsError:
            raise RuntimeError(f"card {index} is taken") from None
        held.write_text(str(os.getpid()))
        atexit.register(held.unlink, missing_ok=True)
        super().select(index)
