"""Whatever is under way says that it is done."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        from torch.distributed import Work

        Work.is_completed = lambda self: True


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_done_at_once", bridge=Bridge)
