"""The operations that a simulated device lacks: their names, checked against torch's."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

import torch

from northbridge_cpu_sim.errors import DeviceFileError
from northbridge_cpu_sim.simulation.simulated_device import Dtype, SimulatedDevice

_ATEN = "aten::"
_CHOSEN_WHOLE = ("aten::convolution", "aten::convolution_backward")  # torch composes them, but the chip does not

Lacking = Mapping[str, str | Mapping[Dtype, str]]

_FUSED_SGD = "aten::_fused_sgd_"
_WIDEST_VECTOR = 32  # elements of 16 bits, with AVX-512


def lacking_operations(device: SimulatedDevice) -> dict[str, str | Mapping[Dtype, str]]:
    """Return ``device.lacks_operations`` by torch's full names. Called before the chip's fallbacks are registered.

    Raises :class:`DeviceFileError` for a name that torch does not know, and for an operation that every chip needs;
    also for an operation that torch composes of others, because it never reaches a device.
    """
    known: dict[str, list[str]] = {}
    for full_name in torch._C._dispatch_get_all_op_names():
        known.setdefault(full_name, [full_name])
        known.setdefault(full_name.partition(".")[0], []).append(full_name)
    lacking: dict[str, str | Mapping[Dtype, str]] = dict(_wrong_on_the_cpu())
    for name, said in device.lacks_operations.items():
        full_name = name if "::" in name else _ATEN + name
        _check(device, full_name, known)
        lacking[full_name] = said
    return lacking


def _wrong_on_the_cpu() -> Lacking:
    """Return the operations that this torch computes wrongly, found by trying them: a chip would train on silently.

    Up to torch 2.13 the fused step of SGD writes no whole vector of 16-bit weights (pytorch/pytorch#191763).
    """
    unstepped: dict[Dtype, str] = {}
    dtypes: tuple[Dtype, ...] = ("bfloat16", "float16")
    for dtype in dtypes:
        weight, gradient = torch.zeros(_WIDEST_VECTOR).to(getattr(torch, dtype)), torch.ones(_WIDEST_VECTOR)
        torch.ops.aten._fused_sgd_(
            [weight],
            [gradient.to(weight)],
            [],
            weight_decay=0.0,
            momentum=0.0,
            lr=1.0,
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=True,
        )
        if not bool(weight.all()):
            unstepped[dtype] = (
                f"{_FUSED_SGD} of {dtype} is not computed: with torch {torch.__version__}, whose CPU kernel computes"
                " for the simulated chip, most weights would stay unchanged (pytorch/pytorch#191763)."
                " Fix: leave fused= out"
            )
    return {_FUSED_SGD: unstepped} if unstepped else {}


def _check(device: SimulatedDevice, name: str, known: Mapping[str, list[str]]) -> None:
    where = f"the simulated device {device.type!r}: lacks_operations names {name!r}"
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "names are as torch prints them, such as aten::bmm"
        raise DeviceFileError(f"{where}, which torch lacks: {hint}")
    overloads = known[name]
    if any(_has_kernel(each, device.key or "PrivateUse1") for each in overloads):
        raise DeviceFileError(f"{where}, which every chip needs. Fix: name one that computes")
    reaches = any(_has_kernel(each, "CPU") for each in overloads)
    if not (reaches or name.startswith("aten::_foreach_") or name.partition(".")[0] in _CHOSEN_WHOLE):
        raise DeviceFileError(f"{where}, which torch composes. Fix: name one of its parts")


def _has_kernel(name: str, key: str) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, key))
