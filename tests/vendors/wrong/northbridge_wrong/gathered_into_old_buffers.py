"""What was gathered is overwritten by what is gathered next."""

import northbridge
from northbridge_wrong import right


class Collective(right.Collective):
    def __init__(self) -> None:
        self.kept = {}

    def all_gather(self, tensor, group=None):
        found = super().all_gather(tensor, group)
        kept = self.kept.setdefault((tensor.shape, tensor.dtype), found)
        return [mine.detach().copy_(each) for mine, each in zip(kept, found, strict=True)]


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_gathered_into_old_buffers", collective=Collective)
