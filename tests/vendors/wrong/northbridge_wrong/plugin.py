"""Faults in detecting, loading and pickling a plugin."""

import os

import northbridge_right as right


@right.wrong
class DetectRaises(right.Bridge):
    """Asking whether the chip is there is an error."""

    def detect(self) -> int:
        raise RuntimeError("the driver does not answer")


@right.wrong
class LoadTwiceBreaks(right.Bridge):
    """A second call of load() puts the chip into torch once more."""

    def load(self) -> None:
        import northbridge_cpu_sim

        northbridge_cpu_sim.install(right.simulated())


@right.wrong
class HooksInWrongOrder(right.Bridge):
    """The software is loaded before it is prepared for."""

    def prepare(self) -> None:
        self.load()
        super().prepare()


@right.wrong
class PicklesItsHandles(right.Bridge):
    """The bridge keeps the driver open, and takes the handle along when it is pickled."""

    def __init__(self) -> None:
        self.driver = open(os.devnull)
