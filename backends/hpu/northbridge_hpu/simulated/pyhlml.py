"""The names of the vendor's ``pyhlml``."""

from __future__ import annotations

from northbridge_hpu.simulated.management import (
    HLMLError as HLMLError,
    HLMLError_AlreadyInitialized as HLMLError_AlreadyInitialized,
    hlmlDeviceGetCount as hlmlDeviceGetCount,
    hlmlDeviceGetHandleByIndex as hlmlDeviceGetHandleByIndex,
    hlmlDeviceGetMemoryInfo as hlmlDeviceGetMemoryInfo,
    hlmlDeviceGetModuleID as hlmlDeviceGetModuleID,
    hlmlDeviceGetName as hlmlDeviceGetName,
    hlmlDeviceGetUtilizationRates as hlmlDeviceGetUtilizationRates,
    hlmlGetDriverVersion as hlmlGetDriverVersion,
    hlmlGetHLMLVersion as hlmlGetHLMLVersion,
    hlmlInit as hlmlInit,
    hlmlShutdown as hlmlShutdown,
)
from northbridge_hpu.simulated.record import watch as _watch

_watch(__name__)
