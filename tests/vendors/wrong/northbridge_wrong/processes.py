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
from northbridge_right import dist, torch


@right.wrong("C0/SoftwareLoading/test_load_overwrites_no_environment_variable[alone]")
class EnvironmentOverwritten(right.Bridge):
    """A user's variable is overwritten."""

    def prepare(self) -> None:
        os.environ["FAIRCHIP_QUEUES"] = "4"


@right.wrong("C0/SoftwareLoading/test_load_overwrites_no_environment_variable[rank 1 of 2]")
class EnvironmentOverwrittenInRanks(right.Bridge):
    """A user's variable is overwritten in ranks."""

    def prepare_rank(self, *, index: int, local_rank: int, world_size: int) -> None:
        if world_size > 1:
            os.environ["FAIRCHIP_QUEUES"] = "4"


@right.wrong("C4/Launches/test_a_fabric_forks_processes")
class ForkNotSurvived(right.Bridge):
    """Fork is claimed, but the software fails after a fork."""

    loaded_in = 0

    def load(self) -> None:
        super().load()
        ForkNotSurvived.loaded_in = ForkNotSurvived.loaded_in or os.getpid()

    def prepare_rank(self, **given: int) -> None:
        if ForkNotSurvived.loaded_in not in (0, os.getpid()):
            raise RuntimeError("the driver was loaded in another process")


@right.wrong("C4/Preemption/test_resumed_weights_equal_those_of_an_uninterrupted_run[one device-lightning.pytorch]")
class SigtermTaken(right.Bridge):
    """The vendor's software handles SIGTERM and ends the process."""

    def after_step(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@right.wrong("C4/KilledRank/test_launching_process_exits_with_an_error[two devices-lightning.pytorch-script]")
def exit_code_lost():
    """A failed run ends with exit code 0."""
    atexit.register(os._exit, 0)


@right.wrong("C2/UserSettings/test_training_keeps_process_settings[one device-lightning.pytorch]")
class DeterministicOff(right.Device):
    """Acquiring a card turns deterministic algorithms off."""

    def select(self, index: int) -> None:
        super().select(index)
        torch.use_deterministic_algorithms(False)


@right.wrong("C2/UserSettings/test_training_keeps_process_settings[one device-lightning.pytorch]")
class InterruptTaken(right.Device):
    """Acquiring a card replaces the handler of Ctrl-C."""

    def select(self, index: int) -> None:
        super().select(index)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_DFL)


@right.wrong("C2/UserSettings/test_training_keeps_process_settings[one device-lightning.pytorch]")
class WorkersSpawned(right.Device):
    """Acquiring a card changes multiprocessing's start method."""

    def select(self, index: int) -> None:
        super().select(index)
        multiprocessing.set_start_method("spawn", force=True)


@right.wrong("C2/UserSettings/test_training_keeps_process_settings[one device-lightning.pytorch]")
class CollectorOff(right.Device):
    """Acquiring a card turns Python's garbage collector off."""

    def select(self, index: int) -> None:
        super().select(index)
        gc.disable()


@right.wrong("C0/SoftwareLoading/test_load_sets_no_variables_of_other_software")
class PluginsOff(right.Bridge):
    """Loading the software disables torch's plugins in later processes."""

    def load(self) -> None:
        super().load()
        os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")


@right.wrong("C0/SoftwareLoading/test_load_sets_no_launcher_variables")
class AddressLeft(right.Bridge):
    """The variables that the software's import writes are left behind."""

    def load(self) -> None:
        super().load()
        for name, value in (("MASTER_ADDR", "localhost"), ("MASTER_PORT", "12345")):
            os.environ.setdefault(name, value)


@right.wrong("C2/UserSettings/test_child_process_counts_the_same_number_of_devices[one device-lightning.pytorch]")
class CardsHidden(right.Device):
    """Selecting a card hides the others from later processes."""

    def count(self) -> int:
        return 1 if "FAIRCHIP_CARD" in os.environ else super().count()

    def select(self, index: int) -> None:
        super().select(index)
        os.environ["FAIRCHIP_CARD"] = str(index)


@right.wrong("C4/KilledRank/test_all_processes_end[two devices-lightning.pytorch-script]")
class HelperOutlives(right.Bridge):
    """A process that a rank has started outlives it."""

    def prepare_rank(self, **_: int) -> None:
        program = "import os, time; os.chdir('/'); time.sleep(60)"
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL, start_new_session=True)


@right.wrong("C4/RaisingRank/test_other_ranks_end_within_a_minute[two devices-lightning.pytorch]")
class ExitWaits(right.Bridge):
    """A rank that raised an error waits at exit for the others."""

    is_registered = False

    def after_step(self) -> None:
        if not ExitWaits.is_registered:
            ExitWaits.is_registered = True
            atexit.register(_wait_for_the_others)


def _wait_for_the_others() -> None:
    store = dist.distributed_c10d._get_default_store()
    store.set(f"left/{dist.get_rank()}", "")
    store.wait([f"left/{rank}" for rank in range(dist.get_world_size())], timedelta(seconds=75))
