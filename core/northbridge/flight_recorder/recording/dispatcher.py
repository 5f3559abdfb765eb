"""Recording of the calls of ``torch.distributed``, at the point where torch passes them to a communication library.

Every call goes through an operator of the dispatcher's library ``c10d``, even DDP's calls in C++. A kernel at the key
BackendSelect, which is above every device's key, records the call and passes it to the kernel below. Wrappers of
``torch.distributed``'s functions would miss calls from C++, and older versions of torch lack the newer hooks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from northbridge.flight_recorder.recording.operators import Operator

if TYPE_CHECKING:
    from northbridge.flight_recorder.recording.recorder import FlightRecorder


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
