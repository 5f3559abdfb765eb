"""Faults of a plugin, and those that change the user's process: signals, variables, settings."""

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
from northbridge_right import dist, torch, wrong

# It announces itself, and is not imported here, where every plugin would wait.
right.FAULTS["wrong_import_waits"] = right.CaughtBy(
    "Importing the plugin takes half a second", "C0/PluginImport/test_import_costs_at_most_50_milliseconds"
)


@wrong("C0/Detection/test_detect_returns_a_number_if_software_is_installed", "Bridge.detect")
def detect_raises(*_):
    """is_available raises."""
    raise RuntimeError("the driver does not answer")


@wrong("C0/SoftwareLoading/test_second_load_changes_nothing", "Bridge.load")
def load_twice_breaks(*_):
    """A second load() fails."""
    import northbridge_cpu_sim

    northbridge_cpu_sim.install(right.simulated())


@wrong(
    "C2/BridgeHooks/test_the_software_is_loaded_before_a_device_is_acquired[one device-lightning.fabric]",
    "Bridge.prepare",
)
def hooks_in_wrong_order(prepare, bridge):
    """Bridge hooks are called in the wrong order."""
    bridge.load()
    prepare(bridge)


@wrong("C0/Pickling/test_declared_backend_can_be_pickled[bridge]", "Bridge.__init__")
def pickles_its_handles(_, bridge):
    """Process handles are pickled."""
    bridge.driver = open(os.devnull)


@wrong("C0/SoftwareLoading/test_load_overwrites_no_environment_variable[alone]", "Bridge.prepare")
def environment_overwritten(*_):
    """A user's variable is overwritten."""
    os.environ["FAIRCHIP_QUEUES"] = "4"


@wrong("C0/SoftwareLoading/test_load_overwrites_no_environment_variable[rank 1 of 2]", "Bridge.prepare_rank")
def environment_overwritten_in_ranks(*_, world_size, **__):
    """A user's variable is overwritten in ranks."""
    if world_size > 1:
        os.environ["FAIRCHIP_QUEUES"] = "4"


loaded_in = []


@wrong("C4/Launches/test_a_fabric_forks_processes")
def fork_not_survived():
    """Fork is claimed, but the software fails after a fork."""
    if not loaded_in:
        loaded_in.append(os.getpid())
        right.Bridge.prepare_rank = assert_not_forked


def assert_not_forked(*_, **__):
    if loaded_in != [os.getpid()]:
        raise RuntimeError("the driver was loaded in another process")


@wrong(
    "C4/Preemption/test_resumed_weights_equal_those_of_an_uninterrupted_run[one device-lightning.pytorch]",
    "Bridge.after_step",
)
def sigterm_taken(*_):
    """The vendor's software handles SIGTERM and ends the process."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


@wrong("C4/KilledRank/test_launching_process_exits_with_an_error[two devices-lightning.pytorch-script]")
def exit_code_lost():
    """A failed run ends with exit code 0."""
    atexit.register(os._exit, 0)


SETTINGS = "C2/UserSettings/test_training_keeps_process_settings[one device-lightning.pytorch]"


@wrong(SETTINGS, "Device.select")
def deterministic_off(select, device, index):
    """Acquiring a card turns deterministic algorithms off."""
    select(device, index)
    torch.use_deterministic_algorithms(False)


@wrong(SETTINGS, "Device.select")
def interrupt_taken(select, device, index):
    """Acquiring a card replaces the handler of Ctrl-C."""
    select(device, index)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_DFL)


@wrong(SETTINGS, "Device.select")
def workers_spawned(select, device, index):
    """Acquiring a card changes multiprocessing's start method."""
    select(device, index)
    multiprocessing.set_start_method("spawn", force=True)


@wrong(SETTINGS, "Device.select")
def collector_off(select, device, index):
    """Acquiring a card turns Python's garbage collector off."""
    select(device, index)
    gc.disable()


@wrong("C0/SoftwareLoading/test_load_sets_no_variables_of_other_software")
def plugins_off():
    """Loading the software disables torch's plugins in later processes."""
    os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")


@wrong("C0/SoftwareLoading/test_load_sets_no_launcher_variables")
def address_left():
    """The variables that the software's import writes are left behind."""
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "12345")


@wrong(
    "C2/UserSettings/test_child_process_counts_the_same_number_of_devices[one device-lightning.pytorch]",
    "Device.select",
)
def cards_hidden(select, device, index):
    """Selecting a card hides the others from later processes."""
    select(device, index)
    os.environ["FAIRCHIP_CARD"] = str(index)


@wrong("C4/KilledRank/test_all_processes_end[two devices-lightning.pytorch-script]", "Bridge.prepare_rank")
def helper_outlives(*_, **__):
    """A process that a rank has started outlives it."""
    program = "import os, time; os.chdir('/'); time.sleep(60)"
    subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL, start_new_session=True)


waiting = []


@wrong("C4/RaisingRank/test_other_ranks_end_within_a_minute[two devices-lightning.pytorch]", "Bridge.after_step")
def exit_waits(*_):
    """A rank that raised an error waits at exit for the others."""
    if not waiting:
        waiting.append(atexit.register(wait_for_the_others))


def wait_for_the_others():
    store = dist.distributed_c10d._get_default_store()
    store.set(f"left/{dist.get_rank()}", "")
    store.wait([f"left/{rank}" for rank in range(dist.get_world_size())], timedelta(seconds=75))
