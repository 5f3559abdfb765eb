"""Recording of each call during training. It costs microseconds, and its errors never end the training.

Calls are recorded where torch passes them to a communication library. Every call goes through an operator of the
dispatcher's library ``c10d``, even DDP's calls in C++. A kernel at the key BackendSelect, which is above every device's
key, records the call and passes it to the kernel below. Wrappers of ``torch.distributed``'s functions would miss calls
from C++, and older versions of torch lack the newer hooks.
"""

from __future__ import annotations

import atexit
import os
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from northbridge.flight_recorder.recording.operators import CountedGroups, Operator
from northbridge.flight_recorder.recording.pending_calls import End, Outstanding
from northbridge.flight_recorder.recording.places import Idling, Places
from northbridge.flight_recorder.records import FORMAT, Frame, Segments
from northbridge.process_record import logger
from northbridge.processes.endings import describe_error, started_at, this_machine

_MOST_TENSORS = 4  # recorded of one call; DDP's broadcasts have hundreds
_PATIENCE_S = 5.0
_RUN_KEY = "northbridge/flight_recorder/run"


class FlightRecorder:
    """The record of this process, in ``folder``: at least the last ``calls`` calls."""

    def __init__(self, folder: Path, *, calls: int) -> None:
        self._folder = folder
        self._most = calls
        self._lock = threading.RLock()  # a signal's handler may make calls too
        self._begin_anew()
        # A forked process inherits the parent's open file, but not its threads.
        os.register_at_fork(after_in_child=self._begin_anew)
        atexit.register(self._leave)

    def _begin_anew(self) -> None:
        self._lock = threading.RLock()
        self._file: Segments | None = None
        self._off = False
        self._rank: dict[str, object] = {}
        self._run = ""
        self._agreeing: threading.Thread | None = None
        self._number = self._in_segment = 0
        self._groups = CountedGroups()
        self._places = Places()
        self._outstanding = Outstanding(self._ended, most=self._most)
        self._idling = Idling(self._note_idling)

    def begin(self, rank: int, world_size: int) -> None:
        """Open the files of this process, which is ``rank`` of ``world_size``."""
        with self._lock:
            if self._off or self._file is not None:
                return
            try:
                self._open(rank, world_size)
            except Exception as error:  # noqa: BLE001 - as below
                self._give_up(error)

    def called(self, operator: Operator, args: tuple[Any, ...]) -> int | None:
        """Record the start of a call, and return its number; None if recording has stopped."""
        if self._off:
            return None
        try:
            with self._lock:
                return self._note(operator, args)
        except Exception as error:  # noqa: BLE001 - recording must never end a training
            self._give_up(error)
            return None

    def under_way(self, call: int, work: Any) -> None:
        """Follow ``work``, the library's object that knows if the call has finished."""
        try:
            self._outstanding.follow(call, work)
        except Exception as error:  # noqa: BLE001 - as above
            self._give_up(error)

    def failed(self, call: int, error: BaseException) -> None:
        """Record that the call has raised ``error``."""
        self._ended([(call, "failed", describe_error(error))])

    def _leave(self) -> None:
        if self._agreeing is not None:
            self._agreeing.join(timeout=_PATIENCE_S)
        self._idling.end()
        self._outstanding.end()
        self._write({"kind": "exit", "at": time.time()})

    def _open(self, rank: int, world_size: int) -> None:
        now, process = time.time(), os.getpid()
        self._file = Segments(self._folder, rank=rank, host=socket.gethostname(), process=process, started=now)
        self._rank = {
            "kind": "rank",
            "format": FORMAT,
            "rank": rank,
            "world_size": world_size,
            "host": socket.gethostname(),
            "process": process,
            "process_ticks": started_at(process),
            "machine": this_machine(),
            "started": now,
            "meeting": f"{os.environ.get('MASTER_ADDR', '')}:{os.environ.get('MASTER_PORT', '')}",
            "restart": os.environ.get("TORCHELASTIC_RESTART_COUNT", ""),
            "program": " ".join(sys.argv)[:500],
        }
        self._turn_over()
        self._idling.start()

    def _turn_over(self) -> None:
        assert self._file is not None
        self._file.turn_over()
        self._places.forget()
        self._in_segment = 0
        self._file.write({**self._rank, "run": self._run}, *(each.as_dict() for each in self._groups))

    def _note(self, operator: Operator, args: tuple[Any, ...]) -> int:
        import torch.distributed

        if self._file is None:
            self._open(torch.distributed.get_rank(), torch.distributed.get_world_size())
        assert self._file is not None
        if self._in_segment >= self._most:
            self._turn_over()
        group, is_new = self._groups.find(torch.distributed.ProcessGroup.unbox(args[operator.group]))
        records: list[dict[str, object]] = [group.as_dict()] if is_new else []
        peer = group.member(args[operator.peer]) if operator.peer is not None else None
        place, thread, frames = self._places.find(sys._getframe())
        if frames is not None:
            records.append(_describe_place(place, thread, frames))
        self._idling.called()
        self._number += 1
        self._in_segment += 1
        call: dict[str, object] = {
            "kind": "call",
            "call": self._number,
            "group": group.key,
            "operation": operator.name,
            "at": time.time(),
            "place": place,
        }
        if operator.tag is not None:
            tag = args[operator.tag]
            direction = "send" if operator.name == "send" else "receive"
            call |= {"direction": direction, "tag": tag}
            call["number"] = group.count(f"{direction} {'any' if peer is None else peer} {tag}")
        else:
            call["number"] = group.count()
        if peer is not None:
            call["peer"] = peer
        if operator.tensors is not None:
            call |= _describe_tensors(args[operator.tensors])
        records.append(call)
        self._file.write(*records)
        if self._agreeing is None:
            # In a thread, because the request for the name waits for the store's process, which may be stopped.
            self._agreeing = threading.Thread(target=self._agree_on_run, name="flight recorder: run", daemon=True)
            self._agreeing.start()
        return self._number

    def _note_idling(self) -> None:
        try:
            with self._lock:
                place, frames = self._places.find_main()
                records = [_describe_place(place, "", frames)] if frames is not None else []
                self._write(*records, {"kind": "idle", "at": time.time(), "place": place})
        except Exception as error:  # noqa: BLE001 - as above
            self._give_up(error)

    def _agree_on_run(self) -> None:
        # Ranks of one run agree on its name, so that files of other runs in the folder can be told apart.
        from torch.distributed import distributed_c10d

        mine = uuid.uuid4().hex[:12]
        run = f"alone-{mine}"
        try:
            store: Any = distributed_c10d._get_default_store()
            run = store.compare_set(_RUN_KEY, "", mine).decode()
        except Exception as error:  # noqa: BLE001 - not every store can compare
            logger.info("flight recorder: the ranks could not agree on a name: %s", describe_error(error))
        with self._lock:
            self._run = run
            self._write({"kind": "run", "run": run})

    def _ended(self, calls: list[End]) -> None:
        now = time.time()
        self._write(*({"kind": "end", "call": call, "at": now, "how": how, "why": why} for call, how, why in calls))

    def _write(self, *records: dict[str, object]) -> None:
        with self._lock:
            if self._off or self._file is None:
                return
            try:
                self._file.write(*records)
            except OSError as error:
                self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        with self._lock:
            if self._off:
                return
            self._off = True
        self._idling.end()
        self._outstanding.drop()
        if self._file is not None:
            self._file.close()
        # A log message, not a warning: where warnings are errors, that would end the training.
        logger.warning(
            "the flight recorder has stopped, and the training goes on without it: %s; what was recorded before is in"
            " %s",
            describe_error(error),
            self._folder,
        )


def _describe_place(place: int, thread: str, frames: list[Frame]) -> dict[str, object]:
    return {"kind": "place", "place": place, "thread": thread, "frames": frames}


def _describe_tensors(given: Any) -> dict[str, object]:
    tensors = given if isinstance(given, (list, tuple)) else (given,)
    shown = [[str(each.dtype).removeprefix("torch."), list(each.shape)] for each in tensors[:_MOST_TENSORS]]
    return {"tensors": shown, "elements": sum(each.numel() for each in tensors), "more": len(tensors) - len(shown)}


def observe(recorder: FlightRecorder) -> None:
    """Let ``recorder`` record every call of this process from here on."""
    import torch
    import torch.distributed

    if not torch.distributed.is_available():
        return
    library = torch.library.Library("c10d", "IMPL")  # type: ignore[no-untyped-call]  # torch's
    for name in torch._C._dispatch_get_all_op_names():
        namespace, _, operator = name.partition("::")
        if namespace != "c10d" or "." in operator:
            continue
        found = Operator.of_schema(operator, torch._C._get_schema(name, ""))
        if found is not None:
            library.impl(  # type: ignore[no-untyped-call]  # torch's
                operator, _kernel(found, getattr(torch.ops.c10d, operator).default, recorder), _KEY, with_keyset=True
            )
    _libraries.append(library)


_KEY = "BackendSelect"

# A collected Library removes its kernels.
_libraries: list[object] = []


def _kernel(operator: Operator, below: Any, recorder: FlightRecorder) -> Callable[..., object]:
    import torch

    keys: Any = torch._C
    under = keys._dispatch_keyset_full_after(keys.DispatchKey.BackendSelect)
    meta = keys.DispatchKey.Meta

    def record_and_hand_on(keyset: Any, *args: Any, **options: Any) -> object:
        # Tensors without data are torch.compile's, which plans a call without making it.
        call = None if keyset.has(meta) else recorder.called(operator, args)
        try:
            result = below.redispatch(keyset & under, *args, **options)
        except BaseException as error:
            if call is not None:
                recorder.failed(call, error)
            raise
        if call is not None:
            recorder.under_way(call, result[-1] if isinstance(result, tuple) else result)
        return result

    return record_and_hand_on
