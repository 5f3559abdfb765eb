"""Faults in the content and the writing of checkpoints."""

from contextlib import nullcontext

import northbridge_right as right


@right.wrong
def checkpoint_with_device_tags():
    """The tensors of a checkpoint say that they lie on the chip."""
    from northbridge.lightning.plugins.checkpoint_io import to_cpu

    to_cpu.__code__ = (lambda state: state).__code__  # by its code, since others have taken the function already


@right.wrong
def checkpoint_moves_the_model():
    """To write a checkpoint takes its models off the chip."""
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


@right.instead_of("northbridge.lightning.plugins.checkpoint_io.draft_of")
def save_not_atomic(_, path):
    """A checkpoint is written over the one that stands in its place."""
    return nullcontext(path)
