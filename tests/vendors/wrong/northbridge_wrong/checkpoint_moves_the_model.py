"""To write a checkpoint takes its models off the chip."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
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


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_checkpoint_moves_the_model", bridge=Bridge)
