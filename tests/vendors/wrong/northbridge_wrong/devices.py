"""Faults in devices, their streams, and their random numbers."""

import atexit
import os
import random
import tempfile
from pathlib import Path

import northbridge
from northbridge_right import Device, is_ours, torch, wrong


@wrong("C1/Placement/test_the_selected_device_is_the_current_one", "Device.select")
def set_device_ignored(select, device, index):
    """set_device is ignored."""
    select(device, 0)


@wrong("C1/Placement/test_every_counted_device_computes", "Device.root")
def devices_renumbered(root, device, index):
    """Devices are renumbered."""
    return root(device, device.count() - 1 - index)


@wrong("C0/Detection/test_loaded_device_count_equals_detection", "Device.count")
def count_wrong(count, device):
    """The device count is wrong."""
    return count(device) - 1


@wrong("C1/Placement/test_device_call_keeps_the_current_device[memory_stats]", "Device.memory_stats")
def statistics_move(memory_stats, device, index):
    """Reading a device's memory selects it."""
    device.module.set_device(index)
    return memory_stats(device, index)


@wrong("C1/Placement/test_mixing_device_and_cpu_tensors_raises", "torch.add")
def sum_over_two_devices(add, given, other, **named):
    """The sum of a chip's and a CPU's tensor gives a number."""
    if isinstance(other, torch.Tensor) and is_ours(given):
        other = other.to(given.device)
    return add(given, other, **named)


@wrong(
    "C1/Placement/test_mixing_device_and_cpu_tensors_raises",
    device_checks=northbridge.no("its kernels take any tensor"),
)
def device_checks_hidden():
    """Device checks are denied, and there."""


@wrong("C3/LastDevices/test_root_device_is_the_current_device[two devices-lightning.pytorch]", "Device.select")
def local_rank_selected(select, device, index):
    """A rank selects the device of its LOCAL_RANK."""
    select(device, int(os.environ.get("LOCAL_RANK", index)))


@wrong("C3/LastDevices/test_root_device_is_the_current_device[two devices-lightning.pytorch]", "Device.select")
def first_workers_card(select, device, index):
    """A Ray worker of local rank 0 is on another's card, the first."""
    select(device, 0 if os.environ.get("LOCAL_RANK") == "0" else index)


@wrong("C4/Launches/test_a_trainer_is_started_by_an_external_launcher[two nodes]", "Device.select")
def nodes_counted_on(select, device, index):
    """The second node continues the first node's device indices."""
    select(device, (index + int(os.environ.get("NODE_RANK", "0"))) % device.count())


@wrong("C4/Restarts/test_restarted_weights_equal_those_of_an_uninterrupted_run", "Device.select")
def card_stays_taken(select, device, index):
    """The card of a killed process stays busy."""
    held = Path(tempfile.gettempdir(), f"fairchip-{os.getppid()}-{index}")
    try:
        held.touch(exist_ok=held.exists() and held.read_text() == str(os.getpid()))
    except FileExistsError:
        raise RuntimeError(f"card {index} is taken") from None
    held.write_text(str(os.getpid()))
    atexit.register(held.unlink, missing_ok=True)
    select(device, index)


def change_events(**methods):
    """Give the chip's events other ``methods``."""

    class Event:
        def __init__(self, **named):
            self.inner = torch.Event(Device.type, **named)

        def __getattr__(self, name):
            return getattr(self.inner, name)

    torch.get_device_module(Device.type).Event = type("Event", (Event,), methods)


@wrong("C1/Streams/test_elapsed_time_between_events_is_in_milliseconds")
def elapsed_in_seconds():
    """The time between events is in seconds."""
    change_events(elapsed_time=lambda event, other: event.inner.elapsed_time(other.inner) / 1000)


@wrong("C1/Streams/test_query_is_true_only_after_the_work_is_done[the event]")
def event_done_at_once():
    """An event reports completion at once."""
    change_events(query=lambda event: True)


@wrong("C1/Streams/test_one_stream_waits_for_another[the event's wait]")
def event_not_waited_for():
    """A stream does not wait for an event."""
    change_events(wait=lambda event, stream=None: None)


@wrong("C1/Streams/test_copy_to_another_device_waits_for_pending_work[a copy]", "torch.Tensor.to")
def other_devices_do_not_wait(to, tensor, *given, **named):
    """A copy to another device does not wait for pending work."""
    module = torch.get_device_module(Device.type)
    where = given[0] if given else None
    if is_ours(tensor) and isinstance(where, torch.device) and where != tensor.device:
        with module.stream(module.Stream(device=tensor.device)):
            return to(tensor, *given, **named)
    return to(tensor, *given, **named)


@wrong("C1/Layers/test_forward_and_backward_match_the_cpu[PReLU]", "torch.nn.functional.prelu")
def error_comes_late(prelu, given, *rest):
    """A kernel's error is raised by the next synchronisation."""
    module = torch.get_device_module(Device.type)
    rightly = module.synchronize

    def synchronize(*device):
        module.synchronize = rightly
        raise RuntimeError("the kernel of prelu has failed")

    if is_ours(given) and rightly.__name__ != "synchronize_late":
        synchronize.__name__ = "synchronize_late"
        module.synchronize = synchronize
    return prelu(given, *rest)


@wrong("C1/RandomNumbers/test_restored_state_gives_the_same_numbers[rand]", "Device.set_random_state")
def random_state_not_restored(*_):
    """A generator's state is not restored."""


@wrong("C1/RandomNumbers/test_random_state_is_per_device", "Device.random_state")
def one_generator_for_two_devices(_, device):
    """Two devices share one generator."""
    return device.module.get_rng_state(0)


@wrong("C1/RandomNumbers/test_seeding_the_device_keeps_the_cpu_generator", "Device.seed")
def seeds_the_host(_, device, seed):
    """Seeding the chip seeds the CPU too."""
    torch.manual_seed(seed)


@wrong("C1/RandomNumbers/test_fork_rng_restores_each_given_device")
def state_of_the_current_device():
    """The index of a random state is ignored."""
    chip = torch.get_device_module(Device.type)
    get, put = chip.get_rng_state, chip.set_rng_state
    chip.get_rng_state = lambda device=None: get()
    chip.set_rng_state = lambda state, device=None: put(state)


@wrong("C1/Distributions/test_distributions_follow_their_parameters", "torch.multinomial")
def multinomial_unweighted(draw, weights, *rest, **named):
    """Multinomial ignores its weights."""
    return draw(torch.ones_like(weights) if is_ours(weights) else weights, *rest, **named)


@wrong("C0/SoftwareLoading/test_load_keeps_process_state")
def loading_seeds_the_host():
    """load() seeds the host's generator."""
    torch.default_generator.manual_seed(0)
    random.seed(0)


@wrong("C1/RandomNumbers/test_same_seed_gives_the_same_sequence[rand]", "Device.seed")
def seed_ignored(*_):
    """A seed is ignored."""


@wrong("C1/RandomNumbers/test_every_bit_of_a_seed_counts", "Device.seed")
def seed_cut(seed, device, given):
    """A seed's highest bit is lost."""
    seed(device, given & 0x7FFFFFFF)


@wrong("C2/RandomStates/test_resume_in_another_process_gives_the_same_weights[one device-lightning.pytorch]")
def random_state_is_a_handle():
    """A random state is valid only in its own process."""
    states, get, put = [], Device.random_state, Device.set_random_state

    def random_state(device):
        states.append(get(device))
        return torch.tensor([len(states) - 1])

    def set_random_state(device, state):
        if int(state) < len(states):
            put(device, states[int(state)])

    Device.random_state, Device.set_random_state = random_state, set_random_state


@wrong("C1/RandomNumbers/test_separate_generator_is_independent[randn]", "torch.randn")
def own_generator_ignored(draw, *size, generator=None, **named):
    """A user's generator is ignored."""
    mine = generator is not None and is_ours(generator)
    return draw(*size, generator=None if mine else generator, **named)


@wrong("C1/RandomNumbers/test_same_seed_gives_the_same_numbers_on_two_devices", "Device.seed")
def first_device_seeded(_, device, seed):
    """A seed reaches only device 0."""
    with device.module.device(0):
        device.module.manual_seed(seed)
