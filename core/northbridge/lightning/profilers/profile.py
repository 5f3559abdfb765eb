"""torch's profile, or the vendor's own, that keeps each trace for the summary."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from northbridge.lightning.profilers.trace import Trace, TraceError, read_trace


class _TracedProfileMixin:
    """Reads each trace as soon as it is complete: torch keeps only the last, and exports it once."""

    _handler: Callable[[Any], Any] | None = None
    _exported: Path | None = None

    # No __init__: Lightning reads the parameters of the vendor's.
    @property
    def traces(self) -> list[Trace]:
        """The traces so far, without those that could not be read."""
        kept: list[Trace] = self.__dict__.setdefault("_traces", [])
        return kept

    @property
    def problems(self) -> list[str]:
        """Why traces could not be read."""
        kept: list[str] = self.__dict__.setdefault("_problems", [])
        return kept

    @property
    def on_trace_ready(self) -> Callable[[Any], None]:
        """The handler that torch calls: it calls the user's, and reads the trace."""
        return self._read

    @on_trace_ready.setter
    def on_trace_ready(self, handler: Callable[[Any], Any] | None) -> None:
        self._handler = handler

    def export_chrome_trace(self, path: str, *args: Any, **kwargs: Any) -> Any:
        """Export the trace, and remember where it is."""
        returned = super().export_chrome_trace(path, *args, **kwargs)  # type: ignore[misc]  # of torch's profile
        self._exported = Path(path)
        return returned

    def _read(self, profile: Any) -> None:
        self._exported = None
        if self._handler is not None:
            self._handler(profile)
        with tempfile.TemporaryDirectory() as folder:
            try:
                if self._exported is None:
                    self.export_chrome_trace(str(Path(folder, "trace.json")))
                assert self._exported is not None
                self.traces.append(read_trace(self._exported))
            except TraceError as error:
                self.problems.append(str(error))
            except RuntimeError as error:  # torch's, if the handler has exported the trace in another way
                self.problems.append(
                    f"the trace cannot be exported: {error} Fix: call the profile's export_chrome_trace"
                    " in on_trace_ready="
                )


@cache
def traced(profile: type) -> Any:
    """Return the class ``profile``, which is ``torch.profiler.profile`` or derived from it, with our mixin."""
    return type(profile.__name__, (_TracedProfileMixin, profile), {"__module__": profile.__module__})
