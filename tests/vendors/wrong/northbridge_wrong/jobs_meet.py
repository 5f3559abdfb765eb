"""All jobs of a machine meet at one port."""

import os

import northbridge
from northbridge_wrong import right


class Collective(right.Collective):
    def initialize(self, **given):
        os.environ["MASTER_PORT"] = "29511"
        super().initialize(**given)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_jobs_meet", collective=Collective)
