"""Faults in memory and in checkpoints, and leaks."""

import os
import signal
from contextlib import nullcontext

from northbridge_right import Device, is_ours, torch, wrong

kept = []
"""Objects that a wrong backend never releases."""


def keep(elements):
    kept.append(torch.ones(elements, device=Device.type))


def keep_in_a_cycle(elements):
    cycle = [torch.ones(elements, device=Device.type)]
    cycle.append(cycle)


@wrong("C1/Memory/test_a_tensor_is_counted_until_it_is_freed", "Device.memory_stats")
def memory_statistics_constant(memory_stats, device, index):
    """Memory statistics are constant."""
    return dict.fromkeys(memory_stats(device, index), 0)


@wrong("C1/Memory/test_peak_allocation_can_be_reset")
def peak_kept():
    """The peak of memory cannot be reset."""
    torch.get_device_module(Device.type).reset_peak_memory_stats = lambda device=None: None


@wrong("C1/OutOfMemory/test_out_of_memory_error_is_recognized[a new tensor]", "torch.OutOfMemoryError.__init__")
def out_of_memory_kills(*_):
    """Out of memory kills the process."""
    os.kill(os.getpid(), signal.SIGKILL)


@wrong("C1/OutOfMemory/test_other_errors_are_not_out_of_memory_errors", "Device.out_of_memory")
def every_error_is_memory(*_):
    """Another error is reported as out of memory."""
    return ("memory", "cannot")


@wrong("C4/Endurance/test_device_memory_is_steady[one device-lightning.pytorch]", "Bridge.after_step")
def steps_kept(*_):
    """Each step leaks memory of the chip."""
    keep(64)


@wrong("C4/Endurance/test_process_memory_is_steady[one device-lightning.pytorch]", "Bridge.after_step")
def host_fills(*_):
    """Each step leaks host memory."""
    kept.append(bytearray(2**15))


@wrong(
    "C4/Endurance/test_number_of_open_files_and_threads_is_steady[one device-lightning.pytorch-files]",
    "Bridge.after_step",
)
def files_kept(*_):
    """Each step leaves a file open."""
    kept.append(os.eventfd(0))


@wrong("C4/Endurance/test_device_memory_is_steady[one device-lightning.pytorch]", "Bridge.after_evaluation")
def evaluation_kept(*_):
    """The memory of an evaluation is never released."""
    keep(2**16)


@wrong(
    "C4/Endurance/test_steps_leave_no_device_memory_in_reference_cycles[one device-lightning.pytorch]",
    "Bridge.after_step",
)
def cycles_kept(*_):
    """Each step leaves a tensor in a reference cycle."""
    keep_in_a_cycle(2**12)


@wrong(
    "C2/RepeatedTraining/test_repeated_trainings_leave_no_device_memory_in_use[one device-lightning.pytorch]",
    "Device.empty_cache",
)
def workspaces_kept(empty_cache, device):
    """Each Trainer leaves a workspace on the card."""
    empty_cache(device)
    keep(2**16)


@wrong("C2/ReleasedTensors/test_no_tensor_is_left[one device-lightning.pytorch-save]", "torch.Tensor.cpu")
def host_copies_kept(cpu, tensor, *given, **named):
    """Copies to the host, as for a checkpoint, stay in its memory."""
    kept.append(cpu(tensor, *given, **named))
    return kept[-1]


@wrong("C2/ReleasedTensors/test_no_device_memory_is_left[one device-lightning.pytorch-fit]", "Device.empty_cache")
def trainings_in_cycles(empty_cache, device):
    """Each training leaves a model's size in a reference cycle."""
    empty_cache(device)
    keep_in_a_cycle(2**12)


@wrong("C2/CheckpointsDuringTraining/test_checkpoint_has_cpu_tensors_and_tied_weights[one device-lightning.fabric]")
def checkpoint_with_device_tags():
    """A checkpoint has tensors tagged with the device."""
    from northbridge.lightning.plugins.checkpoint_io import to_cpu

    to_cpu.__code__ = (lambda state: state).__code__  # by its code, since others have taken the function already


@wrong("C2/CheckpointsDuringTraining/test_saving_leaves_the_model_on_its_device[one device-lightning.fabric]")
def checkpoint_moves_the_model():
    """Saving a checkpoint moves the model to the CPU."""
    from northbridge.lightning.classes import classes
    from northbridge.lightning.namespaces import NAMESPACES

    strategy = classes(NAMESPACES["lightning.fabric"]).single_device
    save = strategy.save_checkpoint

    def moving(self, path, state, *arguments, **named):
        save(self, path, state, *arguments, **named)
        for each in state.values():
            if isinstance(each, torch.nn.Module):
                each.cpu()

    strategy.save_checkpoint = moving


@wrong(
    "C2/CheckpointsDuringTraining/test_failed_save_keeps_the_previous_file[one device-lightning.fabric]",
    "northbridge.lightning.plugins.checkpoint_io.draft_of",
)
def save_not_atomic(_, path):
    """A failed save damages the old checkpoint."""
    return nullcontext(path)


@wrong(
    "C2/CheckpointsDuringTraining/test_views_are_saved_with_their_values[one device-lightning.fabric]",
    "torch.Tensor.storage_offset",
)
def views_at_the_start(storage_offset, tensor):
    """Every view reports a storage offset of 0."""
    return 0 if is_ours(tensor) else storage_offset(tensor)
