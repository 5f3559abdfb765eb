"""Faults in detecting, loading and pickling a plugin."""

import os

import northbridge_right as right


@right.wrong("C0/Detection/test_detect_returns_a_number_if_software_is_installed")
class DetectRaises(right.Bridge):
    """is_available raises."""

    def detect(self) -> int:
        raise RuntimeError("the driver does not answer")


@right.wrong("C0/SoftwareLoading/test_second_load_changes_nothing")
class LoadTwiceBreaks(right.Bridge):
    """A second load() fails."""

    def load(self) -> None:
        import northbridge_cpu_sim

        northbridge_cpu_sim.install(right.simulated())


@right.wrong("C2/BridgeHooks/test_the_software_is_loaded_before_a_device_is_acquired[one device-lightning.fabric]")
class HooksInWrongOrder(right.Bridge):
    """Bridge hooks are called in the wrong order."""

    def prepare(self) -> None:
        self.load()
        super().prepare()


@right.wrong("C0/Pickling/test_declared_backend_can_be_pickled[bridge]")
class PicklesItsHandles(right.Bridge):
    """Process handles are pickled."""

    def __init__(self) -> None:
        self.driver = open(os.devnull)


@right.caught_by("C0/PluginImport/test_import_costs_at_most_50_milliseconds")
def import_waits():
    """Importing the plugin takes half a second."""
    import northbridge_wrong.import_waits  # which announces it: not here, where every plugin would wait
