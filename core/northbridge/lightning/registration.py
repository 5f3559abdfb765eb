"""How a face of Lightning learns of the backends, and the one place that corrects Lightning.

:data:`CORRECTIONS` is the whole of it. All rows are compared with a face before the first is applied, so that no face
is ever half corrected; where one does not match, the face is left alone and one warning says which.
"""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from packaging.version import Version

from northbridge.journal import note
from northbridge.lightning import decisions as decide
from northbridge.lightning.accelerator import is_ours
from northbridge.lightning.auto import choose_auto
from northbridge.lightning.compilation import ASKED, choose_compiler, refuse_compiler
from northbridge.lightning.device_line import device_line
from northbridge.lightning.faces import FACES, Face
from northbridge.lightning.names import register_names
from northbridge.lightning.out_of_memory import empty_caches, is_out_of_memory
from northbridge.lightning.preemption import agree, take_note, take_note_of_requeue
from northbridge.lightning.random_states import collect_with_chip, set_with_chip
from northbridge.lightning.settled_devices import settle_devices
from northbridge.lightning.versions import reason_against_version, untested

Replacement = Callable[[Face, Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True)
class Correction:
    """One function of Lightning that is wrapped, and what it has to look like for that."""

    name: str
    parameters: tuple[str, ...]
    reason: str
    replace: Replacement
    hosts: tuple[Literal["Trainer", "Fabric"], ...] = ("Trainer", "Fabric")
    module: str | None = None  # where it is; else it is a method of the connector
    owner: str | None = None  # the class in ``module`` that has it; else it is a function
    taken_by: str | None = None  # the module that takes the function by name, after its connector or before
    static: bool = False
    first: str = "2.4.0"
    last: str = "2.6.6"


def _read_arguments(face: Face, original: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(original)

    def replacement(self: Any, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(self, *args, **kwargs)
        decide.read_arguments(face, bound.arguments)
        return original(*bound.args, **bound.kwargs)

    return replacement


def _choose_auto(face: Face, original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda: choose_auto(original)


def _settle_devices(face: Face, original: Callable[..., Any]) -> Callable[..., Any]:
    def replacement(self: Any) -> None:
        asked = self._devices_flag
        original(self)
        if is_ours(self.accelerator):
            settle_devices(self, asked)

    return replacement


def _choose_strategy(face: Face, original: Callable[..., Any]) -> Callable[..., Any]:
    def replacement(self: Any) -> Any:
        return decide.choose_strategy(face, self) if is_ours(self.accelerator) else original(self)

    return replacement


def _check_strategy(face: Face, original: Callable[..., Any]) -> Callable[..., Any]:
    def replacement(self: Any) -> Any:
        if is_ours(self.accelerator):
            decide.refuse_strategy(face, self.accelerator.backend_name, self._strategy_flag)
        return original(self)

    return replacement


def _build_strategy(face: Face, original: Callable[..., Any]) -> Callable[..., Any]:
    def replacement(self: Any) -> None:
        if is_ours(self.accelerator):
            self.strategy = decide.build_strategy(face, self)
            return
        original(self)
        decide.refuse_mixture(face, self)

    return replacement


def _build_precision(face: Face, original: Callable[..., Any]) -> Callable[..., Any]:
    def replacement(self: Any) -> Any:
        plugin = decide.build_precision(face, self) if is_ours(self.accelerator) else None
        return original(self) if plugin is None else plugin

    return replacement


def _log_devices(face: Face, original: Callable[..., Any]) -> Callable[..., Any]:
    rank_zero: Any = face.fabric_module("utilities.rank_zero")

    @rank_zero.rank_zero_only  # type: ignore[untyped-decorator]  # Lightning's; it asks the vendor's tools
    def tell(trainer: Any) -> None:
        rank_zero.rank_zero_info(device_line(trainer))

    def replacement(trainer: Any) -> None:
        if is_ours(trainer.accelerator):
            tell(trainer)
        else:
            original(trainer)

    return replacement


def _take_note_of_sigterm(face: Face, original: Callable[..., Any]) -> Callable[..., Any]:
    def replacement(self: Any, signum: int, frame: Any) -> None:
        if is_ours(self.trainer.accelerator) and self.trainer.world_size > 1:
            take_note(self.trainer, signum)
        else:
            original(self, signum, frame)

    return replacement


def _take_note_of_requeue(face: Face, original: Callable[..., Any]) -> Callable[..., Any]:
    def replacement(self: Any, signum: int, frame: Any) -> None:
        is_alone = not is_ours(self.trainer.accelerator) or self.trainer.world_size == 1
        if is_alone or take_note_of_requeue(self.trainer, signum):
            original(self, signum, frame)

    return replacement


def _agree(face: Face, original: Callable[..., Any]) -> Callable[..., Any]:
    def replacement(self: Any) -> None:
        if is_ours(self.trainer.accelerator):
            agree(face, self.trainer)
        else:
            original(self)

    return replacement


def _collect_random_states(face: Face, original: Callable[..., Any]) -> Callable[..., Any]:
    def replacement(include_cuda: bool = True) -> dict[str, Any]:
        return collect_with_chip(original(include_cuda), include_cuda)

    return replacement


def _set_random_states(face: Face, original: Callable[..., Any]) -> Callable[..., Any]:
    def replacement(rng_state_dict: dict[str, Any]) -> None:
        original(rng_state_dict)
        set_with_chip(rng_state_dict)

    return replacement


def _recognize_full_memory(face: Face, original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda exception: original(exception) or is_out_of_memory(exception)


def _empty_caches(face: Face, original: Callable[..., Any]) -> Callable[..., Any]:
    def replacement() -> None:
        original()
        empty_caches()

    return replacement


def _take_up_loaders(face: Face, original: Callable[..., Any]) -> Callable[..., Any]:
    set_epoch: Any = face.fabric_module("utilities.data")._set_sampler_epoch

    def replacement(self: Any) -> None:
        original(self)
        if is_ours(self.trainer.accelerator):
            for loader in self._combined_loader.flattened:
                set_epoch(loader, self.epoch_progress.current.processed)
            self.trainer.strategy.restore_random_states()

    return replacement


def _choose_compiler(face: Face, original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda module, compile_kwargs: original(module, choose_compiler(module, compile_kwargs))


def _keep_compile_arguments(face: Face, original: Callable[..., Any]) -> Callable[..., Any]:
    def replacement(model: Any) -> Any:
        module = original(model)
        if module is not model:  # it was compiled
            module._compiler_ctx[ASKED] = getattr(model, "_compile_kwargs", None)
        return module

    return replacement


def _refuse_compiler(face: Face, original: Callable[..., Any]) -> Callable[..., Any]:
    def replacement(model: Any, strategy: Any) -> None:
        original(model, strategy)
        asked = (model._compiler_ctx or {}).get(ASKED)
        if asked is not None and is_ours(strategy.accelerator):
            refuse_compiler(strategy.backend, asked)

    return replacement


CORRECTIONS = (
    Correction(
        "_check_config_and_set_final_flags",
        ("self", "strategy", "accelerator", "precision", "plugins", "sync_batchnorm"),
        "raises its own text for an unknown name and for 'dp', before any other method is asked",
        _read_arguments,
        hosts=("Trainer",),
    ),
    Correction(
        "_check_config_and_set_final_flags",
        ("self", "strategy", "accelerator", "precision", "plugins"),
        "raises its own text for an unknown name and for 'dp', before any other method is asked",
        _read_arguments,
        hosts=("Fabric",),
    ),
    Correction(
        "_choose_auto_accelerator",
        (),
        "knows tpu, mps, cuda and cpu alone: Trainer() trains on the CPU of a machine full of other chips",
        _choose_auto,
        static=True,
    ),
    Correction(
        "_set_parallel_devices_and_init_accelerator",
        ("self",),
        "takes the devices of a strategy object without an index for one and the same, and drops devices= for them",
        _settle_devices,
    ),
    Correction(
        "_choose_strategy",
        ("self",),
        "gives every accelerator it does not know SingleDeviceStrategy('cpu'), or refuses it",
        _choose_strategy,
    ),
    Correction(
        "_check_strategy_and_fallback",
        ("self",),
        "refuses 'fsdp' with a sentence about GPUs",
        _check_strategy,
    ),
    Correction(
        "_init_strategy",
        ("self",),
        "builds stock strategies, which enter a CUDA stream, or train on the CPU",
        _build_strategy,
    ),
    Correction(
        "_check_and_init_precision",
        ("self",),
        "gives every accelerator it does not know MixedPrecision(…, 'cuda'), which turns itself off",
        _build_precision,
    ),
    Correction(
        "_log_device_info",
        ("trainer",),
        "says 'GPU available: False, used: False' about a chip that is in use",
        _log_devices,
        hosts=("Trainer",),
        module="trainer.setup",
    ),
    Correction(
        "_sigterm_notifier_fn",
        ("self", "signum", "_"),
        "broadcasts inside the signal handler: ranks that are in a backward pass wait for each other until the timeout",
        _take_note_of_sigterm,
        hosts=("Trainer",),
        module="trainer.connectors.signal_connector",
        owner="_SignalConnector",
        first="2.5.2",
    ),
    Correction(
        "_slurm_sigusr_handler_fn",
        ("self", "signum", "_"),
        "writes a checkpoint inside the signal handler, for which the ranks wait for each other wherever they are",
        _take_note_of_requeue,
        hosts=("Trainer",),
        module="trainer.connectors.signal_connector",
        owner="_SignalConnector",
        first="2.5.2",
    ),
    Correction(
        "_broadcast_sigterm_tensor",
        ("self",),
        "listens to rank 0 alone, and takes a rank that died for one that goes on",
        _agree,
        hosts=("Trainer",),
        module="loops.training_epoch_loop",
        owner="_TrainingEpochLoop",
        first="2.5.2",
    ),
    *(
        Correction(name, parameters, "knows no generator but the host's and CUDA's", replace, module=module)
        for name, parameters, replace in (
            ("_collect_rng_states", ("include_cuda",), _collect_random_states),
            ("_set_rng_states", ("rng_state_dict",), _set_random_states),
        )
        for module in ("utilities.seed", "strategies.launchers.multiprocessing")  # both know them by name
    ),
    *(
        Correction(name, parameters, "knows no memory but the host's and CUDA's", replace, ("Trainer",), module)
        for name, parameters, replace in (
            ("is_oom_error", ("exception",), _recognize_full_memory),
            ("garbage_collection_cuda", (), _empty_caches),
        )
        for module in ("utilities.memory", "tuner.batch_size_scaling")  # both know them by name
    ),
    Correction(
        "_to_compiled",
        ("module", "compile_kwargs"),
        "compiles a model once more for the device, with the backend that torch has for CUDA and the CPU",
        _choose_compiler,
        hosts=("Fabric",),
        module="wrappers",
        taken_by="fabric",
    ),
    Correction(
        "_maybe_unwrap_optimized",
        ("model",),
        "drops what the user has asked torch.compile for",
        _keep_compile_arguments,
        hosts=("Trainer",),
        module="utilities.compile",
        taken_by="trainer.trainer",
    ),
    Correction(
        "_verify_strategy_supports_compile",
        ("model", "strategy"),
        "does not ask whether the chip has the compiler's backend",
        _refuse_compiler,
        hosts=("Trainer",),
        module="utilities.compile",
        taken_by="trainer.trainer",
    ),
    Correction(
        "_load_combined_loader_states",
        ("self",),
        "lets a resumed fit shuffle before it tells the samplers which epoch it is, and calls no hook before",
        _take_up_loaders,
        hosts=("Trainer",),
        module="loops.fit_loop",
        owner="_FitLoop",
    ),
)
"""Every function of Lightning that Northbridge replaces, and nothing else does."""


def register(name: str) -> None:
    """Register every installed backend in the face ``name``, and correct that face; done again, it changes nothing.

    Called by the autoload when the face's connector has been imported. A face outside the versions that Northbridge
    knows, or with a row of :data:`CORRECTIONS` that does not match, is left alone with one warning.
    """
    face = FACES[name]
    reason = reason_against(face)
    if reason is not None:
        note(name, "left alone", reason, problem=True)
        warnings.warn(
            f"Northbridge leaves {name} alone, and accelerators of its backends are unknown there: {reason}",
            stacklevel=2,
        )
        return
    register_names(face)
    for correction in _rows(face):
        _apply(face, correction)
    note(name, "registered", f"{name} {face.version}{untested(face.version)}")


def reason_against(face: Face) -> str | None:
    """Return why Northbridge cannot serve ``face``, or ``None`` where it can."""
    reason = reason_against_version(face.version)
    if reason is not None:
        return reason
    wrong = [each for row in _rows(face) if (each := _mismatch(face, row)) is not None]
    if wrong:
        return f"version {face.version} differs from what Northbridge knows: {'; '.join(wrong)}; upgrade northbridge"
    return None


def _rows(face: Face) -> list[Correction]:
    version = Version(face.version)
    return [row for row in CORRECTIONS if face.host in row.hosts and Version(row.first) <= version]


def _owner(face: Face, row: Correction) -> Any:
    if row.module is None:
        return getattr(face.connector, face.connector_class)
    module = face.module(row.module)
    return getattr(module, row.owner) if row.owner else module


def _mismatch(face: Face, row: Correction) -> str | None:
    try:
        function = getattr(_owner(face, row), row.name)
    except (ImportError, AttributeError):
        return f"{row.name} is gone"
    found = tuple(inspect.signature(function).parameters)
    return None if found == row.parameters else f"{row.name} takes {found}, not {row.parameters}"


def _apply(face: Face, row: Correction) -> None:
    owner = _owner(face, row)
    original = getattr(owner, row.name)
    if hasattr(original, "_northbridge_reason"):
        return
    replacement = functools.wraps(original)(row.replace(face, original))
    replacement._northbridge_reason = row.reason  # type: ignore[attr-defined]  # marks it as ours
    setattr(owner, row.name, staticmethod(replacement) if row.static else replacement)
    taker = sys.modules.get(f"{face.name}.{row.taken_by}")
    if getattr(taker, row.name, None) is original:
        setattr(taker, row.name, replacement)
