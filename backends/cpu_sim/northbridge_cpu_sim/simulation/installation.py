"""Installation of a simulated device in a process: compiled, configured, and registered with torch."""

from __future__ import annotations

import atexit
import difflib
import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.autograd import Variable
from torch.utils.backend_registration import generate_methods_for_privateuse1_backend, rename_privateuse1_backend

import northbridge
import northbridge_cpu_sim.chip as chip
import northbridge_cpu_sim.module as cuda_like
from northbridge_cpu_sim.build.extension import build
from northbridge_cpu_sim.build.recipe import recipe_for
from northbridge_cpu_sim.device_type import accept_in_meshes, choose_as_for_cpu, name_in_dlpack, reject_sharing
from northbridge_cpu_sim.errors import DeviceFileError
from northbridge_cpu_sim.faults import plan
from northbridge_cpu_sim.settings import SimSettings
from northbridge_cpu_sim.simulation import process_group
from northbridge_cpu_sim.simulation.process_group import by_dtype, dtype_of
from northbridge_cpu_sim.simulation.simulated_device import Dtype, SimulatedDevice

_ATEN = "aten::"
_CHOSEN_WHOLE = ("aten::convolution", "aten::convolution_backward")  # torch composes them, but the chip does not

Lacking = Mapping[str, str | Mapping[Dtype, str]]

_FUSED_SGD = "aten::_fused_sgd_"
_WIDEST_VECTOR = 32  # elements of 16 bits, with AVX-512


def install(
    device: SimulatedDevice,
    *,
    sources: Path | None = None,
    acquire: Callable[[], int] | None = None,
    held_as: Callable[[], Mapping[Dtype, Dtype]] | None = None,
    module: ModuleType | None = None,
    visible: int | None = None,
) -> ModuleType:
    """Install the simulated chip as torch's device ``device.type``, with the library ``device.collective.name``.

    ``sources`` is a folder of C++ files: a file named like a shared source replaces it, and the others are added.
    ``acquire`` is for a device with one card per process. The first thread that uses the device calls it, and it
    returns the number of the acquired card. Its error becomes a RuntimeError with the same text, at every use until
    it succeeds. Just before, ``held_as`` is asked for more dtypes that the card holds as others. ``module`` becomes
    ``torch.<type>``, unless torch has it there; the default is like ``torch.cuda``, and is returned in any case.
    ``visible`` is the number of devices that this process sees; None means all. ``NORTHBRIDGE_CPU_SIM_DEVICES``,
    ``_MEMORY``, ``_NAME`` and ``_AUTOGRAD_THREADS`` override ``device`` if they are set.

    Raises :class:`northbridge.DeviceTypeTakenError` if the process has a simulated chip already,
    :class:`DeviceFileError` for a device that contradicts itself, :class:`northbridge.SettingsError` for an invalid
    plan of faults, and :class:`BuildError`, also beside another accelerator.
    """
    _reject_second(device.type)
    settings = SimSettings.read()
    device = device.checked().as_set()
    if visible is not None:
        device = device.model_copy(update={"count": visible})
    if acquire is not None and not device.one_per_process:
        raise ValueError(f"acquire needs a {device.type!r} with one card per process")
    faults = plan.read_variable()
    if device.key is not None:  # torch prefers its spare key to any other accelerator
        chip.check_sole_accelerator(device.type)
    extension = build(settings, recipe_for(device, sources))
    operations = lacking_operations(device)  # it may raise: nothing is changed yet
    if device.key is None:
        rename_privateuse1_backend(device.type)
    _configure(extension, device, operations, settings, _deciding(extension, device, acquire, held_as))
    chip.place(extension, device.type)
    plan.begin(extension, faults)
    if module is None or getattr(torch, device.type, None) is not module:  # torch has its own modules already
        torch._register_device_module(device.type, module or cuda_like)  # type: ignore[no-untyped-call]
    if device.key is None:
        generate_methods_for_privateuse1_backend(for_storage=True)
        name_in_dlpack(device.type)
    reject_sharing(device.type)
    accept_in_meshes(device.type)
    choose_as_for_cpu(device.type)
    if device.autograd_threads:
        atexit.register(extension.settle_autograd_threads)
        _count_on_after_backwards(extension)
    else:
        # The chip does this for every thread that touches it; this thread may run a backward pass before that.
        torch.autograd.set_multithreading_enabled(False)
    process_group.register(extension, device.collective, device.type)
    return cuda_like


def _reject_second(name: str) -> None:
    first = chip.installed_type()
    if first is not None:
        raise northbridge.DeviceTypeTakenError(
            f"cannot install {name!r}: this process has the simulated chip {first!r}. Fix: use another process",
            backend=name,
        )


def _deciding(
    extension: ModuleType,
    device: SimulatedDevice,
    acquire: Callable[[], int] | None,
    held_as: Callable[[], Mapping[Dtype, Dtype]] | None,
) -> Callable[[], int] | None:
    if acquire is None or held_as is None:
        return acquire

    def decide_and_acquire() -> int:
        _configure_dtypes(extension, device, held_as())
        return acquire()

    return decide_and_acquire


def _configure_dtypes(extension: ModuleType, device: SimulatedDevice, more: Mapping[Dtype, Dtype]) -> None:
    narrower = {**device.held_as, **more}
    extension.configure_dtypes(
        lacks=by_dtype(device.lacks),
        held_as={dtype_of(wide): dtype_of(narrow) for wide, narrow in narrower.items()},
    )


def _configure(
    extension: ModuleType,
    device: SimulatedDevice,
    operations: Lacking,
    settings: SimSettings,
    acquire: Callable[[], int] | None,
) -> None:
    facts = chip.structure(
        extension,
        "Settings",
        devices=device.count,
        memory=int(device.memory),
        label=device.label,
        one_per_process=device.one_per_process,
        autograd_threads=device.autograd_threads,
        deferred_streams=settings.streams == "deferred",
        ordered_streams=device.ordered_streams,
        nan_in_fresh_memory=settings.fresh == "nan",
        trap_freed_memory=settings.freed == "trap",
        asynchronous_errors=settings.errors == "asynchronous",
        tf32_products=settings.products == "tf32",
        bfloat16_accumulation=settings.accumulation == "bfloat16",
        other_order=settings.order == "other",
        flush_denormals=settings.denormals == "flushed",
    )
    extension.configure(facts, acquire)
    _configure_dtypes(extension, device, {})
    limits = {
        name: {"wholly": said} if isinstance(said, str) else {"dtypes": by_dtype(said)}
        for name, said in operations.items()
    }
    extension.configure_operations(
        {name: chip.structure(extension, "OperationLimits", **each) for name, each in limits.items()}
    )
    if settings.errors == "asynchronous":
        importlib.import_module("torch._meta_registrations")  # defines the shapes of results that are never computed
    extension.register_fallbacks()
    if device.graphs:
        extension.register_graph()


def _count_on_after_backwards(extension: ModuleType) -> None:
    """Let a thread number its next nodes after those of a backward pass, as if it had made them itself.

    The C++ code does it for all nodes but the first: no code of the chip runs before an operator of autograd.
    """
    engine: Any = Variable._execution_engine

    class Engine(type(engine)):  # type: ignore[misc]  # torch's, untyped
        def run_backward(self, *arguments: Any, **options: Any) -> Any:
            try:
                return super().run_backward(*arguments, **options)
            finally:
                extension.share_sequence_numbers()

    Variable._execution_engine = Engine()


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
        _check_operation(device, full_name, known)
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


def _check_operation(device: SimulatedDevice, name: str, known: Mapping[str, list[str]]) -> None:
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
