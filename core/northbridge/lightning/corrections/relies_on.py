"""Private names of Lightning that our classes override, call, read or set.

If Lightning renamed one, an override would not be called, and an attribute that is set would not be read. ``table.py``
compares these rows with a namespace together with its own, before it replaces anything there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CodeType
from typing import Any, Literal

from northbridge.lightning.namespaces import Namespace

Hosts = tuple[Literal["Trainer", "Fabric"], ...]


@dataclass(frozen=True)
class Reliance:
    """A private method, function or attribute of a class or module of Lightning."""

    name: str
    parameters: tuple[str, ...] | None  # None for an attribute
    hosts: Hosts
    module: str
    owner: str | None  # the class in ``module`` that defines it, not a base of that class; None for the module itself
    in_fabric: bool = False  # True for a module of the Fabric below a Trainer's namespace
    command: bool = False  # True if it waits for the command ``fabric``
    first: str = "2.4.0"
    until: str | None = None  # the first release that differs: another row describes it

    def __str__(self) -> str:
        return f"{self.owner or self.module}.{self.name}"


def differences(namespace: Namespace, rows: list[Reliance]) -> list[str]:
    """Say of each of ``rows`` that ``namespace`` lacks or has otherwise what it expected and what is there.

    Lightning's code is read and not imported: when its connector is imported, most of its classes are not there yet.
    """
    read = cache(_read)
    return [said for row in rows if (said := _difference(namespace, row, read)) is not None]


def _difference(namespace: Namespace, row: Reliance, read: Callable[[str], CodeType | None]) -> str | None:
    home = namespace.fabric if row.in_fabric else namespace.name
    code = read(f"{home}.{row.module}")
    if code is not None and row.owner is not None:
        code = _defined(code, row.owner)
    if code is not None and row.parameters is not None:
        code = _defined(code, row.name)
    if code is None:
        return f"{row} is gone"
    if row.parameters is None:
        return None if any(row.name in each.co_names for each in _with_inner(code)) else f"{row} is gone"
    found = _parameters(code)
    return None if found == row.parameters else f"{row} takes {found}, not {row.parameters}"


def _read(module: str) -> CodeType | None:
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:  # its package is gone
        return None
    loader: Any = spec and spec.loader
    code: CodeType | None = loader and loader.get_code(module)
    return code


def _defined(code: CodeType, name: str) -> CodeType | None:
    """Return the code of the class or function ``name`` that ``code`` defines last."""
    inner = [each for each in code.co_consts if isinstance(each, CodeType) and each.co_name == name]
    return inner[-1] if inner else None


def _with_inner(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_inner(constant)


def _parameters(code: CodeType) -> tuple[str, ...]:
    several = bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + several]


def _relied(owner: str, *names: str, hosts: Hosts = ("Trainer", "Fabric"), **more: Any) -> tuple[Reliance, ...]:
    """Return a row for each of ``names`` of ``owner``, as ``module:Class``; a function has its parameters behind it."""
    module, _, cls = owner.partition(":")
    rows = []
    for each in names:
        name, is_function, listed = each.removesuffix(")").partition("(")
        rows.append(
            Reliance(name, tuple(listed.split(", ")) if is_function else None, hosts, module, cls or None, **more)
        )
    return tuple(rows)


def _by_trainer(owner: str, *names: str, **more: Any) -> tuple[Reliance, ...]:
    return _relied(owner, *names, hosts=("Trainer",), **more)


def _by_fabric(owner: str, *names: str, **more: Any) -> tuple[Reliance, ...]:
    return _relied(owner, *names, hosts=("Fabric",), **more)


_STRATEGY, _SINGLE_DEVICE = "strategies.strategy:Strategy", "strategies.single_device:SingleDeviceStrategy"
_DDP, _FSDP = "strategies.ddp:DDPStrategy", "strategies.fsdp:FSDPStrategy"
_MODEL_PARALLEL = "strategies.model_parallel:ModelParallelStrategy"
_DEEPSPEED = "strategies.deepspeed:DeepSpeedStrategy"
_PROCESSES = "strategies.launchers.multiprocessing:_MultiProcessingLauncher"
_SCRIPTS = "strategies.launchers.subprocess_script:_SubprocessScriptLauncher"
_TRAINERS_CONNECTOR = "trainer.connectors.accelerator_connector"

_LAUNCH = ("_configure_launcher(self)", "_get_process_group_backend(self)", "_launcher", "_process_group_backend")
_RANKS = ("_set_world_ranks(self)", "_setup_distributed(self)")
_FLAGS = (
    "_accelerator_flag",
    "_cluster_environment_flag",
    "_devices_flag",
    "_num_nodes_flag",
    "_parallel_devices",
    "_strategy_flag",
)

RELIES_ON = (
    *_relied(_STRATEGY, "_accelerator", "_checkpoint_io"),
    *_by_trainer(_STRATEGY, "_optimizers", "_precision_plugin"),
    *_by_fabric(_STRATEGY, "_convert_stateful_objects_in_state(self, state, filter)", "_precision"),
    *_relied(_SINGLE_DEVICE, "_root_device"),
    *_relied(_DDP, *_LAUNCH, "_ddp_kwargs", "_start_method", "_timeout"),
    *_by_trainer(_DDP, "_register_ddp_hooks(self)", "_ddp_comm_hook", "_ddp_comm_state", "_ddp_comm_wrapper"),
    *_by_fabric(_DDP, *_RANKS, "_determine_ddp_device_ids(self)"),
    *_relied(_FSDP, *_LAUNCH, "_state_dict_type", "_timeout"),
    *_by_fabric(_FSDP, *_RANKS, "_fsdp_kwargs"),
    *_relied(_MODEL_PARALLEL, *_LAUNCH, "_setup_distributed(self)", "_timeout"),
    *_relied(_MODEL_PARALLEL, "_device_mesh", "_save_distributed_checkpoint"),
    *_by_fabric(_MODEL_PARALLEL, "_set_world_ranks(self)"),
    *_relied(_DEEPSPEED, "_process_group_backend"),
    *_relied(_DEEPSPEED, "_timeout", first="2.5.0"),
    *_by_trainer(_DEEPSPEED, "_setup_model_and_optimizer(self, model, optimizer, lr_scheduler)"),
    *_by_trainer(_DEEPSPEED, "_init_optimizers(self)", "_initialize_deepspeed_train(self, model)"),
    *_by_trainer(_DEEPSPEED, "_initialize_deepspeed_inference(self, model)"),
    *_by_fabric(_DEEPSPEED, "_setup_distributed(self)", "_format_config(self)", "_config_initialized"),
    *_by_fabric(_DEEPSPEED, "_initialize_engine(self, model, optimizer)", until="2.6.0"),
    *_by_fabric(_DEEPSPEED, "_initialize_engine(self, model, optimizer, scheduler)", first="2.6.0"),
    *_relied(_SCRIPTS, "_call_children_scripts(self)"),
    *_relied(_PROCESSES, "_start_method", "_strategy"),
    *_by_trainer(
        _PROCESSES,
        "_wrapping_function(self, process_idx, trainer, function, args, kwargs, return_queue, global_states)",
    ),
    *_by_fabric(
        _PROCESSES, "_wrapping_function(self, process_idx, function, args, kwargs, return_queue, global_states)"
    ),
    *_by_trainer(_TRAINERS_CONNECTOR, "_IS_INTERACTIVE"),
    *_by_trainer(f"{_TRAINERS_CONNECTOR}:_AcceleratorConnector", *_FLAGS, "_layer_sync"),
    *_by_trainer(f"{_TRAINERS_CONNECTOR}:_AcceleratorConnector", "_precision_flag", "_precision_plugin_flag"),
    *_by_fabric("connector", "_IS_INTERACTIVE"),
    *_by_fabric("connector:_Connector", *_FLAGS, "_precision_input", "_precision_instance"),
    *_relied("connector", "_convert_precision_to_unified_args(precision)", in_fabric=True),
    *_relied("wrappers", "_compile_kwargs", in_fabric=True),
    *_by_trainer("utilities.data", "_set_sampler_epoch(dataloader, epoch)", in_fabric=True),
    *_by_fabric("wrappers:_FabricModule", "_forward_module"),
    *_by_fabric("cli", "_main", command=True),
    *_by_trainer("trainer.trainer:Trainer", "_logger_connector", "_signal_connector"),
    *_by_trainer("loops.training_epoch_loop:_TrainingEpochLoop", "_batches_that_stepped"),
    *_by_trainer("loops.fit_loop:_FitLoop", "_combined_loader"),
    *_by_trainer("loops.optimization.closure:AbstractClosure", "_result"),
    *_by_trainer("core.optimizer", "_init_optimizers_and_lr_schedulers(model)"),
    *_by_trainer("core.module:LightningModule", "_compiler_ctx", "_current_fx_name", "_trainer"),
    *_by_trainer("plugins.io.wrapper:_WrappingCheckpointIO", "_checkpoint_io"),
    *_by_trainer("profilers.profiler:Profiler", "_stats_to_str(self, stats)"),
    *_by_trainer("profilers.pytorch:PyTorchProfiler", "_profiler_kwargs", "_row_limit"),
)
"""Every private name of Lightning that Northbridge relies on without replacing it."""
