"""Faults in memory, and leaks."""

import os
import signal

import northbridge_right as right
from northbridge_right import torch

kept = []
"""Objects that a wrong backend never releases."""


@right.wrong("C1/Memory/test_a_tensor_is_counted_until_it_is_freed")
class MemoryStatisticsConstant(right.Device):
    """Memory statistics are constant."""

    def memory_stats(self, index: int) -> dict[str, float]:
        return dict.fromkeys(super().memory_stats(index), 0)


@right.wrong("C1/Memory/test_peak_allocation_can_be_reset")
def peak_kept():
    """The peak of memory cannot be reset."""
    torch.get_device_module(right.Device.type).reset_peak_memory_stats = lambda device=None: None


@right.caught_by("C1/OutOfMemory/test_out_of_memory_error_is_recognized[a new tensor]")
@right.instead_of("torch.OutOfMemoryError.__init__")
def out_of_memory_kills(*_):
    """Out of memory kills the process."""
    os.kill(os.getpid(), signal.SIGKILL)


@right.wrong("C1/OutOfMemory/test_other_errors_are_not_out_of_memory_errors")
class EveryErrorIsMemory(right.Device):
    """Another error is reported as out of memory."""

    out_of_memory = ("memory", "cannot")


@right.wrong("C4/Endurance/test_device_memory_is_steady[one device-lightning.pytorch]")
class StepsKept(right.Bridge):
    """Each step leaks memory of the chip."""

    def after_step(self) -> None:
        kept.append(torch.ones(64, device=right.Device.type))


@right.wrong("C4/Endurance/test_process_memory_is_steady[one device-lightning.pytorch]")
class HostFills(right.Bridge):
    """Each step leaks host memory."""

    def after_step(self) -> None:
        kept.append(bytearray(2**15))


@right.wrong("C4/Endurance/test_number_of_open_files_and_threads_is_steady[one device-lightning.pytorch-files]")
class FilesKept(right.Bridge):
    """Each step leaves a file open."""

    def after_step(self) -> None:
        kept.append(os.eventfd(0))


@right.wrong("C4/Endurance/test_device_memory_is_steady[one device-lightning.pytorch]")
class EvaluationKept(right.Bridge):
    """The memory of an evaluation is never released."""

    def after_evaluation(self) -> None:
        kept.append(torch.ones(2**16, device=right.Device.type))


@right.wrong("C4/Endurance/test_steps_leave_no_device_memory_in_reference_cycles[one device-lightning.pytorch]")
class CyclesKept(right.Bridge):
    """Each step leaves a tensor in a reference cycle."""

    def after_step(self) -> None:
        cycle: list[object] = [torch.ones(2**12, device=right.Device.type)]
        cycle.append(cycle)


@right.wrong("C2/RepeatedTraining/test_repeated_trainings_leave_no_device_memory_in_use[one device-lightning.pytorch]")
class WorkspacesKept(right.Device):
    """Each Trainer leaves a workspace on the card."""

    def empty_cache(self) -> None:
        super().empty_cache()
        kept.append(torch.ones(2**16, device=self.type))


@right.caught_by("C2/ReleasedTensors/test_no_tensor_is_left[one device-lightning.pytorch-save]")
@right.instead_of("torch.Tensor.cpu")
def host_copies_kept(rightly, tensor, *given, **named):
    """Copies to the host, as for a checkpoint, stay in its memory."""
    copied = rightly(tensor, *given, **named)
    kept.append(copied)
    return copied


@right.wrong("C2/ReleasedTensors/test_no_device_memory_is_left[one device-lightning.pytorch-fit]")
class TrainingsInCycles(right.Device):
    """Each training leaves a model's size in a reference cycle."""

    def empty_cache(self) -> None:
        super().empty_cache()
        cycle: list[object] = [torch.ones(2**12, device=self.type)]
        cycle.append(cycle)
