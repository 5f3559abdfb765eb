"""Seeds, random states, and draws."""

import random

import northbridge_right as right
from northbridge_right import torch


@right.wrong("C1/RandomNumbers/test_restored_state_gives_the_same_numbers[rand]")
class RandomStateNotRestored(right.Device):
    """A generator's state is not restored."""

    def set_random_state(self, state) -> None:
        pass


@right.wrong("C1/RandomNumbers/test_random_state_is_per_device")
class OneGeneratorForTwoDevices(right.Device):
    """Two devices share one generator."""

    def random_state(self):
        return self.module.get_rng_state(0)


@right.wrong("C1/RandomNumbers/test_seeding_the_device_keeps_the_cpu_generator")
class SeedsTheHost(right.Device):
    """Seeding the chip seeds the CPU too."""

    def seed(self, seed):
        torch.manual_seed(seed)


@right.wrong("C1/RandomNumbers/test_fork_rng_restores_each_given_device")
def state_of_the_current_device():
    """The index of a random state is ignored."""
    chip = torch.get_device_module(right.Device.type)
    get, put = chip.get_rng_state, chip.set_rng_state
    chip.get_rng_state = lambda device=None: get()
    chip.set_rng_state = lambda state, device=None: put(state)


@right.caught_by("C1/Distributions/test_distributions_follow_their_parameters")
@right.instead_of("torch.multinomial")
def multinomial_unweighted(draw, weights, *rest, **named):
    """Multinomial ignores its weights."""
    if weights.device.type == right.Device.type:
        weights = torch.ones_like(weights)
    return draw(weights, *rest, **named)


@right.wrong("C0/SoftwareLoading/test_load_keeps_process_state")
def loading_seeds_the_host():
    """load() seeds the host's generator."""
    torch.default_generator.manual_seed(0)
    random.seed(0)


@right.wrong("C1/RandomNumbers/test_same_seed_gives_the_same_sequence[rand]")
class SeedIgnored(right.Device):
    """A seed is ignored."""

    def seed(self, seed):
        pass


@right.wrong("C1/RandomNumbers/test_every_bit_of_a_seed_counts")
class SeedCut(right.Device):
    """A seed's highest bit is lost."""

    def seed(self, seed):
        super().seed(seed & 0x7FFFFFFF)


@right.wrong("C2/RandomStates/test_resume_in_another_process_gives_the_same_weights[one device-lightning.pytorch]")
class RandomStateIsAHandle(right.Device):
    """A random state is valid only in its own process."""

    def __init__(self) -> None:
        self.states = []

    def random_state(self):
        self.states.append(super().random_state())
        return torch.tensor([len(self.states) - 1])

    def set_random_state(self, state):
        if int(state) < len(self.states):
            super().set_random_state(self.states[int(state)])


@right.caught_by("C1/RandomNumbers/test_separate_generator_is_independent[randn]")
@right.instead_of("torch.randn")
def own_generator_ignored(draw, *size, generator=None, **named):
    """A user's generator is ignored."""
    mine = generator is not None and generator.device.type == right.Device.type
    return draw(*size, generator=None if mine else generator, **named)


@right.wrong("C1/RandomNumbers/test_same_seed_gives_the_same_numbers_on_two_devices")
class FirstDeviceSeeded(right.Device):
    """A seed reaches only device 0."""

    def seed(self, seed):
        with self.module.device(0):
            self.module.manual_seed(seed)
