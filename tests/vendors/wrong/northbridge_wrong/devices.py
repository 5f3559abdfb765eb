"""Faults in counting and selecting devices."""

import atexit
import os
import tempfile
from pathlib import Path

import northbridge_right as right


@right.wrong
class SetDeviceIgnored(right.Device):
    """A process stays on its first device, whichever it is told to take."""

    def select(self, index: int) -> None:
        super().select(0)


@right.wrong
class DevicesRenumbered(right.Device):
    """The devices are counted from the other end."""

    def root(self, index: int):
        return super().root(self.count() - 1 - index)


@right.wrong
class CountWrong(right.Device):
    """One device fewer is counted than there are."""

    def count(self) -> int:
        return super().count() - 1


@right.wrong
class StatisticsMove(right.Device):
    """To read the statistics of a device makes it the current one."""

    def memory_stats(self, index):
        self.module.set_device(index)
        return super().memory_stats(index)


@right.wrong
class LocalRankSelected(right.Device):
    """The device of a rank is that of its number."""

    def select(self, index):
        super().select(int(os.environ.get("LOCAL_RANK", index)))


@right.wrong
class FirstWorkersCard(right.Device):
    """Rank 0 is on the first device: on that of another training, where Ray gives each a device of its own."""

    def select(self, index: int) -> None:
        super().select(0 if os.environ.get("LOCAL_RANK") == "0" else index)


@right.wrong
class NodesCountedOn(right.Device):
    """On the second node the devices are counted on from the first."""

    def select(self, index: int) -> None:
        super().select((index + int(os.environ.get("NODE_RANK", "0"))) % self.count())


@right.wrong
class CardStaysTaken(right.Device):
    """A card stays taken where the process that held it was killed."""

    def select(self, index: int) -> None:
        held = Path(tempfile.gettempdir(), f"fairchip-{os.getppid()}-{index}")
        try:
            held.touch(exist_ok=held.exists() and held.read_text() == str(os.getpid()))
        except FileExistsError:
            raise RuntimeError(f"card {index} is taken") from None
        held.write_text(str(os.getpid()))
        atexit.register(held.unlink, missing_ok=True)
        super().select(index)
