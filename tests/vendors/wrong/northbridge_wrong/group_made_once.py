"""The process group is made once a process."""

import northbridge
from northbridge_wrong import right


class Collective(right.Collective):
    made = False

    def initialize(self, **given):
        if not Collective.made:
            super().initialize(**given)
        Collective.made = True


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_group_made_once", collective=Collective)
