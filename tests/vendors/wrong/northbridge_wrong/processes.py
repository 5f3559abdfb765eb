"""Faults that change the user's process: signals, variables, settings."""

import atexit
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from datetime import timedelta

import northbridge_right as right


@right.wrong
class EnvironmentOverwritten(right.Bridge):
    """A variable that the user has set is replaced."""

    def prepare(self) -> None:
        os.environ["FAIRCHIP_QUEUES"] = "4"


@right.wrong
class EnvironmentOverwrittenInRanks(right.Bridge):
    """A variable that the user has set is replaced where there are several ranks."""

    def prepare_rank(self, *, index: int, local_rank: int, world_size: int) -> None:
        if world_size > 1:
            os.environ["FAIRCHIP_QUEUES"] = "4"


@right.wrong
class ForkNotSurvived(right.Bridge):
    """The loaded software fails after a fork, although the plugin claims that."""

    loaded_in = 0

    def load(self) -> None:
        super().load()
        ForkNotSurvived.loaded_in = ForkNotSurvived.loaded_in or os.getpid()

    def prepare_rank(self, **given: int) -> None:
        if ForkNotSurvived.loaded_in not in (0, os.getpid()):
            raise RuntimeError("the driver was loaded in another process")


@right.wrong
class SigtermTaken(right.Bridge):
    """The vendor's software takes SIGTERM, and ends the process by it."""

    def after_step(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@right.wrong
def exit_code_lost():
    """The vendor's software ends the process at exit, and says that all went well."""
    atexit.register(os._exit, 0)


@right.wrong
class DeterministicOff(right.Device):
    """To take a card turns deterministic algorithms off again."""

    def select(self, index: int) -> None:
        import torch

        super().select(index)
        torch.use_deterministic_algorithms(False)


@right.wrong
class InterruptTaken(right.Device):
    """To take a card takes Ctrl-C, which then ends the process on the spot."""

    def select(self, index: int) -> None:
        super().select(index)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_DFL)


@right.wrong
class WorkersSpawned(right.Device):
    """To take a card has the user's own processes spawned from then on."""

    def select(self, index: int) -> None:
        super().select(index)
        multiprocessing.set_start_method("spawn", force=True)


@right.wrong
class CollectorOff(right.Device):
    """To take a card turns Python's collector off."""

    def select(self, index: int) -> None:
        super().select(index)
        gc.disable()


@right.wrong
class PluginsOff(right.Bridge):
    """Loading the software disables torch's plugins in every later process."""

    def load(self) -> None:
        super().load()
        os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")


@right.wrong
class AddressLeft(right.Bridge):
    """Loading the software leaves the address and the port that its import writes, the same for every job."""

    def load(self) -> None:
        super().load()
        for name, value in (("MASTER_ADDR", "localhost"), ("MASTER_PORT", "12345")):
            os.environ.setdefault(name, value)


@right.wrong
class CardsHidden(right.Device):
    """Selecting a card hides the others from every later process."""

    def count(self) -> int:
        return 1 if "FAIRCHIP_CARD" in os.environ else super().count()

    def select(self, index: int) -> None:
        super().select(index)
        os.environ["FAIRCHIP_CARD"] = str(index)


@right.wrong
class HelperOutlives(right.Bridge):
    """A rank starts a daemon that outlives it."""

    def prepare_rank(self, **_: int) -> None:
        program = "import os, time; os.chdir('/'); time.sleep(60)"
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL, start_new_session=True)


@right.wrong
class ExitWaits(right.Bridge):
    """A rank waits at exit for the others: for more than a minute if one of them raised an error."""

    is_registered = False

    def after_step(self) -> None:
        if not ExitWaits.is_registered:
            ExitWaits.is_registered = True
            atexit.register(_wait_for_the_others)


def _wait_for_the_others() -> None:
    import torch.distributed as dist

    store = dist.distributed_c10d._get_default_store()
    store.set(f"left/{dist.get_rank()}", "")
    store.wait([f"left/{rank}" for rank in range(dist.get_world_size())], timedelta(seconds=75))
