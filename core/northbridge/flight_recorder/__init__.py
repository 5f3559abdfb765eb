"""The last collectives of every rank in files, and the waits between ranks in them.

``NORTHBRIDGE_FLIGHT_RECORDER=folder`` arms it. Each rank writes its calls of ``torch.distributed`` at once, so that the
record survives SIGKILL, and exists while the rank hangs. ``northbridge hang folder`` reads the files of all ranks and
says which rank waits for which. No code here depends on a communication library: calls are recorded where torch passes
them on.
"""

from __future__ import annotations

from northbridge.flight_recorder.recording.switch import arm as arm, begin as begin

__all__ = ["arm", "begin"]
