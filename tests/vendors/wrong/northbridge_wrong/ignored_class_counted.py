"""A loss counts a class that it is told to ignore."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        from torch.nn import functional

        loss = functional.cross_entropy

        def count_all(given, target, *rest, **named):
            if given.device.type == right.Device.type:
                named.pop("ignore_index", None)
            return loss(given, target, *rest, **named)

        functional.cross_entropy = count_all


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_ignored_class_counted", bridge=Bridge)
