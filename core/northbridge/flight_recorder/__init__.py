"""The last collectives of every rank in files, and who waits for whom in them.

``NORTHBRIDGE_FLIGHT_RECORDER=folder`` arms it: each rank writes what it calls of ``torch.distributed`` at once, so that
the record outlives SIGKILL, and is there while the rank hangs. ``northbridge hang folder`` reads the files of all
ranks and says who waits for whom. Nothing here knows a communication library: calls are seen where torch hands them to
one.
"""

from __future__ import annotations

from northbridge.flight_recorder.recording.switch import arm as arm, begin as begin

__all__ = ["arm", "begin"]
