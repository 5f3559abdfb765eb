"""Registration of the backends in a namespace of Lightning, and all corrections of Lightning.

:data:`CORRECTIONS` lists all of them. They and the rows of ``relies_on.py`` are compared with a namespace before the
first is applied, so that it is never half corrected. If a row does not match, the namespace is left alone, and one
warning names the row. The rows of the command ``fabric`` wait for the import of its module, which scripts never import.
"""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from packaging.version import Version

from northbridge.lightning.connector.registry import let_others_register, register_names
from northbridge.lightning.corrections import replacements
from northbridge.lightning.corrections.relies_on import RELIES_ON, Reliance, differences
from northbridge.lightning.corrections.replacements import accelerator_option
from northbridge.lightning.namespaces import NAMESPACES, Namespace
from northbridge.lightning.profilers import profile
from northbridge.lightning.strategies.compilation import choose_compiler
from northbridge.lightning.vendor_names.strategies import register_as_lightning_types
from northbridge.lightning.versions import reason_against_uploads, reason_against_version, untested
from northbridge.process_record import note


@dataclass(frozen=True)
class Correction:
    """A function of Lightning that is wrapped, and the shape that it must have."""

    name: str
    parameters: tuple[str, ...] | None  # None for a value that is not a function
    reason: str
    replace: Callable[..., Any]  # called instead of it, or once for a value
    hosts: tuple[Literal["Trainer", "Fabric"], ...] = ("Trainer", "Fabric")
    module: str | None = None  # its module; None for a method of the connector
    owner: str | Callable[[Any], Any] | None = None  # its name in ``module``, or a function that finds it there
    imported_by: str | None = None  # a module that imports the function by name, after its connector or before
    static: bool = False
    command: bool = False  # True if it waits for the command ``fabric``
    first: str = "2.4.0"
    until: str | None = None  # the first release that needs it no more


Row = TypeVar("Row", Correction, Reliance)

_REGISTRIES: tuple[tuple[Literal["Trainer", "Fabric"], str, str, str], ...] = (
    ("Trainer", "accelerator", "accelerators", "AcceleratorRegistry"),
    ("Trainer", "strategy", "strategies", "StrategyRegistry"),
    ("Fabric", "accelerator", "accelerators", "ACCELERATOR_REGISTRY"),
    ("Fabric", "strategy", "strategies", "STRATEGY_REGISTRY"),
)

_of_trainer = functools.partial(Correction, hosts=("Trainer",))
_of_fabric = functools.partial(Correction, hosts=("Fabric",))
_of_profiler = functools.partial(_of_trainer, module="profilers.pytorch", owner="PyTorchProfiler")

CORRECTIONS = (
    *(
        of_host(
            "_check_config_and_set_final_flags",
            ("self", "strategy", "accelerator", "precision", "plugins", *more),
            "raises its own text for an unknown name and for 'dp', before any other method is asked",
            replacements.read_arguments,
        )
        for of_host, more in ((_of_trainer, ("sync_batchnorm",)), (_of_fabric, ()))
    ),
    Correction(
        "_choose_auto_accelerator",
        (),
        "knows tpu, mps, cuda and cpu alone: Trainer() trains on the CPU of a machine full of other chips",
        replacements.choose_auto,
        static=True,
    ),
    Correction(
        "_set_parallel_devices_and_init_accelerator",
        ("self",),
        "treats devices without an index of a strategy object as one device, and drops devices= for them",
        replacements.settle_devices,
    ),
    Correction(
        "_choose_and_init_cluster_environment",
        ("self",),
        "asks mpi4py for the ranks of mpiexec, and takes a job of SLURM for ranks that srun starts",
        replacements.choose_environment,
    ),
    Correction(
        "_choose_strategy",
        ("self",),
        "gives every accelerator it does not know SingleDeviceStrategy('cpu'), or refuses it",
        replacements.choose_strategy,
    ),
    Correction(
        "_check_strategy_and_fallback",
        ("self",),
        "refuses 'fsdp' with a sentence about GPUs",
        replacements.check_strategy,
    ),
    Correction(
        "_init_strategy",
        ("self",),
        "builds stock strategies, which enter a CUDA stream, or train on the CPU",
        replacements.build_strategy,
    ),
    Correction(
        "_check_and_init_precision",
        ("self",),
        "gives every accelerator it does not know MixedPrecision(…, 'cuda'), which turns itself off",
        replacements.build_precision,
    ),
    _of_trainer(
        "_log_device_info",
        ("trainer",),
        "says 'GPU available: False, used: False' about a chip that is in use",
        replacements.log_devices,
        module="trainer.setup",
    ),
    _of_trainer(
        "_sigterm_notifier_fn",
        ("self", "signum", "_"),
        "broadcasts inside the signal handler: ranks that are in a backward pass wait for each other until the timeout",
        replacements.note_sigterm,
        module="trainer.connectors.signal_connector",
        owner="_SignalConnector",
        first="2.5.2",
    ),
    _of_trainer(
        "_slurm_sigusr_handler_fn",
        ("self", "signum", "_"),
        "writes a checkpoint inside the signal handler, for which the ranks wait for each other wherever they are",
        replacements.note_requeue,
        module="trainer.connectors.signal_connector",
        owner="_SignalConnector",
        first="2.5.2",
    ),
    _of_trainer(
        "_broadcast_sigterm_tensor",
        ("self",),
        "listens only to rank 0, and takes a dead rank for one that trains on",
        replacements.agree,
        module="loops.training_epoch_loop",
        owner="_TrainingEpochLoop",
        first="2.5.2",
    ),
    *(
        Correction(name, parameters, "knows no generator but the host's and CUDA's", replace, module=module)
        for name, parameters, replace in (
            ("_collect_rng_states", ("include_cuda",), replacements.collect_random_states),
            ("_set_rng_states", ("rng_state_dict",), replacements.set_random_states),
        )
        for module in ("utilities.seed", "strategies.launchers.multiprocessing")  # both import them by name
    ),
    *(
        Correction(
            "_init_dist_connection",
            ("cluster_environment", "torch_distributed_backend", "global_rank", "world_size", "kwargs"),
            "passes device_id=None for the CPU, which a vendor's init_process_group may not have",
            replacements.start_group,
            module=f"strategies.{strategy}",
            first="2.5.5",
        )
        for strategy in ("ddp", "fsdp", "model_parallel")  # all import it by name
    ),
    _of_trainer(
        "pl_load",
        ("path_or_url", "map_location", "weights_only"),
        "reads by what a vendor's import has put in the place of torch.load, which may run the code of a file, and"
        " raises whatever a damaged file leads to",
        replacements.read_model,
        module="core.saving",  # its name for the function that reads for load_from_checkpoint()
    ),
    *(
        Correction(name, parameters, "knows no memory but the host's and CUDA's", replace, ("Trainer",), module)
        for name, parameters, replace in (
            ("is_oom_error", ("exception",), replacements.recognize_full_memory),
            ("garbage_collection_cuda", (), replacements.empty_caches),
        )
        for module in ("utilities.memory", "tuner.batch_size_scaling")  # both import them by name
    ),
    _of_fabric(
        "_to_compiled",
        ("module", "compile_kwargs"),
        "compiles a model once more for the device, with the backend that torch has for CUDA and the CPU",
        choose_compiler,
        module="wrappers",
        imported_by="fabric",
    ),
    _of_trainer(
        "_maybe_unwrap_optimized",
        ("model",),
        "drops what the user has asked torch.compile for",
        replacements.keep_compile_arguments,
        module="utilities.compile",
        imported_by="trainer.trainer",
    ),
    _of_trainer(
        "_verify_strategy_supports_compile",
        ("model", "strategy"),
        "does not ask whether the chip has the compiler's backend",
        replacements.reject_compiler,
        module="utilities.compile",
        imported_by="trainer.trainer",
    ),
    _of_trainer(
        "clip_grad_by_norm",
        ("self", "optimizer", "clip_val"),
        "clips by torch's functions alone, where a vendor has its own",
        replacements.clip_by_norm,
        module="plugins.precision.precision",
        owner="Precision",
    ),
    _of_trainer(
        "_load_combined_loader_states",
        ("self",),
        "lets a resumed fit shuffle before it tells the samplers which epoch it is, and calls no hook before",
        replacements.resume_loaders,
        module="loops.fit_loop",
        owner="_FitLoop",
    ),
    _of_profiler(
        "_default_activities",
        ("self",),
        "asks torch for the activity of the CPU and of CUDA alone",
        profile.mark_activities,
    ),
    _of_profiler(
        "_create_profilers",
        ("self",),
        "asks torch for the activity of the CPU and of CUDA alone",
        profile.profile_chip,
    ),
    _of_profiler(
        "_create_profiler",
        ("self", "profiler"),
        "keeps no trace, and exports none without dirpath=",
        profile.keep_traces,
    ),
    _of_profiler(
        "_cache_functions_events",
        ("self",),
        "fails on an assertion if the run ended before the schedule's first active step",
        profile.cache_events,
    ),
    _of_profiler(
        "summary",
        ("self",),
        "shows what Kineto recorded: vendors that add their events to the exported file are not in it",
        profile.summarize_profile,
    ),
    _of_trainer(
        "_init_profiler",
        ("trainer", "profiler"),
        "knows no vendor's name for the profiler",
        profile.init_profiler,
        module="trainer.setup",
    ),
    _of_fabric(
        "_update_properties",
        ("root", "device", "dtype"),
        "gives the device of a module its index on CUDA alone: module.device differs from that of what it computes",
        replacements.complete_device,
        module="utilities.device_dtype_mixin",  # also a base of LightningModule
    ),
    Correction(
        "_load_config",
        ("self", "config"),
        "comes before the import of DeepSpeed, which may turn deterministic algorithms on for the whole process",
        replacements.load_config,
        module="strategies.deepspeed",
        owner="DeepSpeedStrategy",
    ),
    *(
        Correction(
            "register",
            ("name", kind, "description", "override", "init_params"),
            "refuses a name that it has to a script that registers it, which names nothing of ours",
            let_others_register,
            hosts=(host,),
            module=module,
            owner=owner,
        )
        for host, kind, module, owner in _REGISTRIES
    ),
    _of_fabric(
        "type",
        None,
        "offers Lightning's own accelerators alone to `fabric run --accelerator`",
        replacements.offer_names,
        module="cli",
        owner=accelerator_option,
        command=True,
    ),
    _of_fabric(
        "_get_num_processes",
        ("accelerator", "devices"),
        "counts the devices of Lightning's own accelerators alone",
        replacements.count_processes,
        module="cli",
        command=True,
    ),
)
"""Everything in Lightning that Northbridge replaces; no other code replaces anything."""


def register(name: str) -> None:
    """Register every installed backend in the namespace ``name``, and correct it; a repeated call changes nothing.

    Called by the autoload after the import of the namespace's connector.
    """
    namespace = NAMESPACES[name]
    reason = reason_against(namespace)
    if reason is not None:
        note(name, "left alone", reason, problem=True)
        warnings.warn(
            f"Northbridge leaves {name} alone; its backends cannot be used there: {reason}",
            stacklevel=2,
        )
        return
    register_names(namespace)
    register_as_lightning_types(namespace)
    for correction in _rows(CORRECTIONS, namespace):
        _apply(namespace, correction)
    note(name, "registered", f"{name} {namespace.version}{untested(namespace.version)}")


def register_command(name: str) -> None:
    """Let the command of the Fabric ``name`` accept the installed backends, and count their devices.

    Called by the autoload after the import of the command's module.
    """
    namespace = NAMESPACES[name]
    if reason_against(namespace) or reason_against(namespace, command=True):
        note(name, "command left alone", "`fabric run` is not what Northbridge knows: set LT_ACCELERATOR instead")
        return
    for correction in _rows(CORRECTIONS, namespace, command=True):
        _apply(namespace, correction)


def reason_against(namespace: Namespace, *, command: bool = False) -> str | None:
    """Return the reason why Northbridge cannot serve ``namespace``, or its ``command``; None if it can."""
    reason = reason_against_uploads() or reason_against_version(namespace.version, namespace.distributions)
    if reason is not None:
        return reason
    rows = _rows(CORRECTIONS, namespace, command=command)
    wrong = [each for row in rows if (each := _mismatch(namespace, row)) is not None]
    wrong += differences(namespace, _rows(RELIES_ON, namespace, command=command))
    if wrong:
        found = "; ".join(wrong)
        return f"version {namespace.version} differs from what Northbridge knows: {found}. Fix: upgrade Northbridge"
    return None


def _rows(table: tuple[Row, ...], namespace: Namespace, *, command: bool = False) -> list[Row]:
    version = Version(namespace.version)
    here = [row for row in table if namespace.host in row.hosts and row.command == command]
    return [row for row in here if Version(row.first) <= version and not (row.until and Version(row.until) <= version)]


def _owner(namespace: Namespace, row: Correction) -> Any:
    if row.module is None:
        return getattr(namespace.connector, namespace.connector_class)
    module = namespace.module(row.module)
    if callable(row.owner):
        return row.owner(module)
    return getattr(module, row.owner) if row.owner else module


def _mismatch(namespace: Namespace, row: Correction) -> str | None:
    try:
        function = getattr(_owner(namespace, row), row.name)
    except (ImportError, AttributeError):
        return f"{row.name} is gone"
    if row.parameters is None:
        return None
    found = tuple(inspect.signature(function).parameters)
    return None if found == row.parameters else f"{row.name} takes {found}, not {row.parameters}"


def _apply(namespace: Namespace, row: Correction) -> None:
    owner = _owner(namespace, row)
    original = getattr(owner, row.name)
    if hasattr(original, "_northbridge_reason"):
        return

    def corrected(*args: Any, **kwargs: Any) -> Any:
        return row.replace(namespace, original, *args, **kwargs)

    is_function = row.parameters is not None
    replacement: Any = functools.wraps(original)(corrected) if is_function else row.replace(namespace, original)
    replacement._northbridge_reason = row.reason  # marks it as ours
    setattr(owner, row.name, staticmethod(replacement) if row.static else replacement)
    taker = sys.modules.get(f"{namespace.name}.{row.imported_by}")
    if getattr(taker, row.name, None) is original:
        setattr(taker, row.name, replacement)
