"""Faults in memory, and leaks."""

import os
import signal

import northbridge_right as right

kept = []
"""Objects that a wrong backend never releases."""


@right.wrong
class MemoryStatisticsConstant(right.Device):
    """The memory statistics are those of an empty device, whatever it holds."""

    def memory_stats(self, index: int) -> dict[str, float]:
        return dict.fromkeys(super().memory_stats(index), 0)


@right.wrong
def peak_kept():
    """The most that was allocated is never forgotten."""
    import torch

    torch.get_device_module(right.Device.type).reset_peak_memory_stats = lambda device=None: None


@right.instead_of("torch.OutOfMemoryError.__init__")
def out_of_memory_kills(*_):
    """Where the memory is full, the process ends."""
    os.kill(os.getpid(), signal.SIGKILL)


@right.wrong
class EveryErrorIsMemory(right.Device):
    """An error about shapes counts as full memory."""

    out_of_memory = ("memory", "cannot")


@right.wrong
class StepsKept(right.Bridge):
    """Each step leaves a little on the chip."""

    def after_step(self) -> None:
        import torch

        kept.append(torch.ones(64, device=right.Device.type))


@right.wrong
class HostFills(right.Bridge):
    """Each step leaves something in the host's memory."""

    def after_step(self) -> None:
        kept.append(bytearray(2**15))


@right.wrong
class FilesKept(right.Bridge):
    """Each step leaves a file open: the handle of its event."""

    def after_step(self) -> None:
        kept.append(os.eventfd(0))


@right.wrong
class EvaluationKept(right.Bridge):
    """The memory of an evaluation is never released."""

    def after_evaluation(self) -> None:
        import torch

        kept.append(torch.ones(2**16, device=right.Device.type))


@right.wrong
class CyclesKept(right.Bridge):
    """Each step leaves a tensor in a reference cycle, so that the chip waits for Python's collector."""

    def after_step(self) -> None:
        import torch

        cycle: list[object] = [torch.ones(2**12, device=right.Device.type)]
        cycle.append(cycle)


@right.wrong
class WorkspacesKept(right.Device):
    """Each Trainer leaves a workspace on the card."""

    def empty_cache(self) -> None:
        import torch

        super().empty_cache()
        kept.append(torch.ones(2**16, device=self.type))
