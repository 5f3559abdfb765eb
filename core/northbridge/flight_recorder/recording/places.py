"""Places in the code: of calls, and where an idle rank is stuck while other ranks wait for its call."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType

from northbridge.flight_recorder.records import Frame

_DEEPEST = 100
_OURS = f"{__name__.rpartition('.')[0]}."


class Places:
    """The recorded stacks, each with a number: most calls of a training come from a few places."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}
        self._codes: list[CodeType] = []  # keeps the codes alive, so that their ids stay unique

    def find(self, frame: FrameType | None) -> tuple[int, str, list[Frame] | None]:
        """Return the number of the stack of ``frame``, its thread, and its frames if the stack is new.

        A call from a thread without Python code, such as autograd's, gets the frames of the main thread, which is in
        ``backward()`` meanwhile.
        """
        frame, thread = _of_caller(frame)
        number, frames = self._number(frame, thread)
        return number, thread, frames

    def find_main(self) -> tuple[int, list[Frame] | None]:
        """Return the number of the main thread's current stack, and its frames if the stack is new."""
        return self._number(_of_main_thread(), "")

    def _number(self, frame: FrameType | None, thread: str) -> tuple[int, list[Frame] | None]:
        stack: list[FrameType] = []
        while frame is not None and len(stack) < _DEEPEST:
            stack.append(frame)
            frame = frame.f_back
        # Computing the line from the place in the code is slower than everything else here.
        key = (thread, *((id(each.f_code), each.f_lasti) for each in stack))
        known = self._numbers.get(key)
        if known is not None:
            return known, None
        number = self._numbers[key] = len(self._numbers)
        self._codes += [each.f_code for each in stack]
        return number, [_describe(each) for each in stack]

    def forget(self) -> None:
        """Forget all stacks, so that each is new again."""
        self._numbers.clear()
        self._codes.clear()


def _of_caller(frame: FrameType | None) -> tuple[FrameType | None, str]:
    while frame is not None and str(frame.f_globals.get("__name__")).startswith(_OURS):
        frame = frame.f_back
    if frame is not None:
        current = threading.current_thread()
        return frame, "" if current is threading.main_thread() else current.name
    return _of_main_thread(), "autograd"


def _of_main_thread() -> FrameType | None:
    return sys._current_frames().get(threading.main_thread().ident or 0)


def _describe(frame: FrameType) -> Frame:
    code = frame.f_code
    return Frame(str(frame.f_globals.get("__name__")), code.co_filename, frame.f_lineno or 0, code.co_name)


_IDLE_S = 5.0
_LONGEST_S = 300.0
_MOST = 100
"""Limit of records between two calls, so that they do not push out the calls."""


class Idling:
    """Call ``tell`` after some seconds without a call, and again at growing intervals while that lasts."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell
        self._calls = 0
        self._end = threading.Event()

    def start(self) -> None:
        """Begin to watch."""
        threading.Thread(target=self._watch, name="flight recorder: idling", daemon=True).start()

    def called(self) -> None:
        """Note that a call was made."""
        self._calls += 1

    def end(self) -> None:
        """Stop watching."""
        self._end.set()

    def _watch(self) -> None:
        seen, told, pause = self._calls, 0, _IDLE_S
        while not self._end.wait(pause):
            if self._calls != seen:
                seen, told, pause = self._calls, 0, _IDLE_S
            elif told < _MOST:
                self._tell()
                told, pause = told + 1, min(2 * pause, _LONGEST_S)
