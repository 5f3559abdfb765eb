"""Faults in the content and the writing of checkpoints."""

from contextlib import nullcontext

import northbridge_right as right


@right.wrong(
    "C2/CheckpointsDuringTraining/test_checkpoint_has_cpu_tensors_and_tied_weights[one device-lightning.fabric]"
)
def checkpoint_with_device_tags():
    """A checkpoint has tensors tagged with the device."""
    from northbridge.lightning.plugins.checkpoint_io import to_cpu

    to_cpu.__code__ = (lambda state: state).__code__  # by its code, since others have taken the function already


@right.wrong("C2/CheckpointsDuringTraining/test_saving_leaves_the_model_on_its_device[one device-lightning.fabric]")
def checkpoint_moves_the_model():
    """Saving a checkpoint moves the model to the CPU."""
    from northbridge.lightning.classes import classes
    from northbridge.lightning.namespaces import NAMESPACES
    from torch.nn import Module

    strategy = classes(NAMESPACES["lightning.fabric"]).single_device
    save = strategy.save_checkpoint

    def moving(self, path, state, *arguments, **named):
        save(self, path, state, *arguments, **named)
        for each in state.values():
            if isinstance(each, Module):
                each.cpu()

    strategy.save_checkpoint = moving


@right.caught_by("C2/CheckpointsDuringTraining/test_failed_save_keeps_the_previous_file[one device-lightning.fabric]")
@right.instead_of("northbridge.lightning.plugins.checkpoint_io.draft_of")
def save_not_atomic(_, path):
    """A failed save damages the old checkpoint."""
    return nullcontext(path)
