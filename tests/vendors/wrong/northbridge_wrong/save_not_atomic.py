"""A checkpoint is written over the one that stands in its place."""

from contextlib import nullcontext

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        from northbridge.lightning.plugins import checkpoint_io

        checkpoint_io.draft_of = nullcontext


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_save_not_atomic", bridge=Bridge)
