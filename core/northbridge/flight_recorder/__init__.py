"""The last collectives of every rank in files, and the waits between ranks in them.

Each rank writes its calls of ``torch.distributed`` at once, so that the record survives SIGKILL, and exists while the
rank hangs. ``northbridge hang folder`` reads the files of all ranks and says which rank waits for which.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from northbridge.errors import SettingsError
from northbridge.settings import CoreSettings

if TYPE_CHECKING:
    from northbridge.flight_recorder.recording.recorder import FlightRecorder

_armed: list[FlightRecorder] = []


def arm() -> None:
    """Record the collectives of this process from here on, if ``NORTHBRIDGE_FLIGHT_RECORDER`` names a folder.

    ``northbridge.load()`` calls it; a script that loads no backend of ours can call it before ``init_process_group()``.
    Raises :class:`SettingsError` if the folder is not writable.
    """
    settings = CoreSettings.read()
    if settings.flight_recorder is None or _armed:
        return
    from northbridge.flight_recorder.recording.recorder import FlightRecorder, observe

    folder = Path(os.path.expanduser(settings.flight_recorder)).absolute()
    _assert_writable(folder, str(settings.flight_recorder))
    recorder = FlightRecorder(folder, calls=settings.flight_recorder_calls)
    observe(recorder)
    _armed.append(recorder)


def begin(rank: int, world_size: int) -> None:
    """Record the rank of this process, before it waits for the other ranks."""
    arm()
    for recorder in _armed:
        recorder.begin(rank, world_size)


def _assert_writable(folder: Path, asked: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"\n" * 4096)  # a full disk has room for an empty file
    except OSError as error:
        variable = CoreSettings.variable("flight_recorder")
        raise SettingsError(
            f"{variable}={asked!r}: cannot write to {folder}: {error.strerror or error}. Fix: name another"
            " folder, or unset it",
            variable=variable,
        ) from None
