"""DDP is told not to send the first rank's weights round when it begins."""

import northbridge
from northbridge_wrong import right


class Collective(right.Collective):
    def ddp_options(self):
        return {**super().ddp_options(), "init_sync": False}


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_init_sync_off", collective=Collective)
