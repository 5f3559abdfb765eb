"""Seeds, random states, and draws."""

import random

import northbridge_right as right


@right.wrong
class RandomStateNotRestored(right.Device):
    """A random state that is put back is dropped."""

    def set_random_state(self, state) -> None:
        pass


@right.wrong
class OneGeneratorForTwoDevices(right.Device):
    """The random state of every device is that of the first one."""

    def random_state(self):
        return self.module.get_rng_state(0)


@right.wrong
class SeedsTheHost(right.Device):
    """To seed the chip seeds the CPU."""

    def seed(self, seed):
        import torch

        torch.manual_seed(seed)


@right.wrong
def state_of_the_current_device():
    """Whichever device's state is asked for, it is that of the current one."""
    import torch

    chip = torch.get_device_module(right.Device.type)
    get, put = chip.get_rng_state, chip.set_rng_state
    chip.get_rng_state = lambda device=None: get()
    chip.set_rng_state = lambda state, device=None: put(state)


@right.instead_of("torch.multinomial")
def multinomial_unweighted(draw, weights, *rest, **named):
    """Draws by weights take all of them for one."""
    import torch

    if weights.device.type == right.Device.type:
        weights = torch.ones_like(weights)
    return draw(weights, *rest, **named)


@right.wrong
def loading_seeds_the_host():
    """To load the software seeds the host's generators."""
    import torch

    torch.default_generator.manual_seed(0)
    random.seed(0)


@right.wrong
class SeedCut(right.Device):
    """A seed is kept in 31 bits."""

    def seed(self, seed):
        super().seed(seed & 0x7FFFFFFF)


@right.wrong
class RandomStateIsAHandle(right.Device):
    """A random state is a number that this process alone understands."""

    def __init__(self) -> None:
        self.states = []

    def random_state(self):
        import torch

        self.states.append(super().random_state())
        return torch.tensor([len(self.states) - 1])

    def set_random_state(self, state):
        if int(state) < len(self.states):
            super().set_random_state(self.states[int(state)])


@right.instead_of("torch.randn")
def own_generator_ignored(draw, *size, generator=None, **named):
    """A draw by a generator of the user's is made by the chip's."""
    mine = generator is not None and generator.device.type == right.Device.type
    return draw(*size, generator=None if mine else generator, **named)


@right.wrong
class FirstDeviceSeeded(right.Device):
    """A seed reaches only the generator of device 0."""

    def seed(self, seed):
        with self.module.device(0):
            self.module.manual_seed(seed)
