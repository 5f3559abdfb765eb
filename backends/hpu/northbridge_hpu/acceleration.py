"""What a Gaudi offers beyond torch's own operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import northbridge
from northbridge_hpu.settings import HPUSettings

if TYPE_CHECKING:
    from torch.profiler import ProfilerActivity


class HPUAcceleration(northbridge.Acceleration):
    """The vendor's profiler, whose import replaces torch's profile and its activities."""

    def profiler_activity(self) -> ProfilerActivity:
        HPUSettings.read().reject_other_profiles()
        import torch.profiler

        activities: Any = torch.profiler.ProfilerActivity  # the vendor's, which torch does not count as supported
        activity: ProfilerActivity = activities.HPU
        return activity
