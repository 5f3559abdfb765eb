"""Base of strategies for several devices: rendezvous, reductions and gathers over the chip's library."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

import torch.distributed

from northbridge.errors import CollectiveError, VariableError, WrongDeviceError
from northbridge.launch import process_group
from northbridge.launch.cluster import check_environment, check_numbers, explain_connection_failure
from northbridge.launch.environment import Launcher, Run
from northbridge.launch.mpiexec import find_address
from northbridge.launch.parent_watch import end_with_launcher
from northbridge.launch.process_group import leave_at_the_end, note_failure
from northbridge.lightning.accelerators.accelerator import LARGEST_SEED, seed_of_environment
from northbridge.lightning.launchers import end_as_ranks_end, name_dead_ranks
from northbridge.lightning.plugins.layer_sync import restore, synchronize
from northbridge.lightning.strategies.chip import _ChipMixin
from northbridge.lightning.strategies.unsupported import OF_SEVERAL_RANKS, reject_unsupported

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

    from northbridge.collective import Collective


_RULE = "-" * 100

_LAUNCHERS: dict[str, Launcher] = {
    "LightningEnvironment": "lightning",
    "TorchElasticEnvironment": "torchrun",
    "SLURMEnvironment": "slurm",
    "LSFEnvironment": "lsf",
    "MPIEnvironment": "mpi",
    "MpiexecEnvironment": "mpi",
}


class _ParallelMixin(_ChipMixin):
    """Runs on several devices, one process each."""

    _start_method = "popen"  # for strategies of Lightning without a start method

    sigterm_noted: bool = False
    """True if this rank has received SIGTERM, which ends the training at the next batch."""

    ranks_end: bool = False
    """True if the ranks have agreed to end because of it: until then they act together."""

    requeue_noted: bool = False
    """True if this rank has a signal from SLURM that the job will be requeued."""

    ranks_requeue = False
    """True if the ranks have agreed on the requeue, and write the checkpoint."""

    _needs: tuple[str, ...] = OF_SEVERAL_RANKS
    """The claims that a run of several ranks requires."""

    @property
    def collective(self) -> Collective:
        """The library over which all ranks communicate."""
        return self.backend.require_collective()

    def _configure_launcher(self) -> None:
        _ = self.collective  # also for one rank
        if self.num_processes * self.num_nodes > 1:
            reject_unsupported(self.backend, *self._needs)
        self._process_group_backend = self._get_process_group_backend()
        super()._configure_launcher()
        if self._start_method == "popen":
            ours = self.siblings.script_launcher
            if type(self._launcher) is ours.stock_class:
                self._launcher.__class__ = ours
                self._launcher.strategy = self
            else:
                self.assert_environment()  # no launcher of ours starts the ranks
            end_with_launcher(starts_ranks=not self.cluster_environment.creates_processes_externally)
            end_as_ranks_end()

    def assert_environment(self) -> None:
        """Raise :class:`ClusterError` if the ranks would never meet; our launchers call it before they start ranks.

        Not called when the host is built: a machine on which a script is only tried out needs no settings.
        """
        check_environment(self._run("launch"))

    def _run(self, stage: Literal["launch", "rank"]) -> Run:
        environment = type(self.cluster_environment).__name__
        return Run(
            nodes=self.num_nodes,
            devices=self.num_processes,
            launcher=_LAUNCHERS.get(environment, "user"),
            stage=stage,
            rank=self.global_rank if stage == "rank" else None,
            starts_scripts=self._start_method == "popen",
        )

    def set_world_ranks(self) -> None:
        """Set a Trainer's ranks. Raises :class:`ClusterError` if the environment's numbers contradict each other."""
        self._check_numbers()
        super().set_world_ranks()

    def _set_world_ranks(self) -> None:
        self._check_numbers()
        super()._set_world_ranks()

    def _check_numbers(self) -> None:
        check_numbers(self._run("launch"))
        if isinstance(self.cluster_environment, self.siblings.mpiexec_environment):
            self.cluster_environment.validate_settings(self.num_processes, self.num_nodes)

    def setup_distributed(self) -> None:
        """Set up a Trainer's ranks: numbers, seed, process group."""
        self._setup_distributed()

    def _setup_distributed(self) -> None:
        if self.namespace.is_trainer:
            reject_wrong_seed()
            self.namespace.fabric_module("utilities.seed").reset_seed()
            self.accelerator.seed()
            self.set_world_ranks()
        else:
            self._set_world_ranks()
        self.sigterm_noted = self.ranks_end = self.requeue_noted = False
        process_group.ignore_doubt_about_device()  # also if the user made the process group
        self._start_process_group()
        if torch.distributed.is_initialized():  # False if a test has replaced torch's functions
            self.collective.assert_carries(self.root_device)

    def _start_process_group(self) -> None:
        if torch.distributed.is_initialized():
            return
        run = self._run("rank")
        if run.launcher == "lightning":
            check_environment(run)
        if run.launcher == "slurm":  # Lightning reads one of SLURM's lists, and not every form of it
            os.environ["MASTER_ADDR"] = find_address(os.environ, rank=self.global_rank, nodes=run.nodes, srun=True)
        os.environ["MASTER_ADDR"] = self.cluster_environment.main_address
        os.environ["MASTER_PORT"] = str(self.cluster_environment.main_port)
        if run.launcher != "lightning":
            check_environment(run)
        # Lightning logs this when it creates the group.
        distributed = self.namespace.fabric_module("utilities.distributed")
        distributed.log.info(
            f"Initializing distributed: GLOBAL_RANK: {self.global_rank}, MEMBER:"
            f" {self.global_rank + 1}/{self.world_size}"
        )
        store = None
        try:
            store = self._meet(self._timeout)
            self._start_over_library(self._timeout, store)
        except (OSError, RuntimeError) as error:
            reason = explain_connection_failure(run, error, met=store is not None)
            if reason is None:
                raise
            raise reason from error
        distributed.rank_zero_info(
            f"{_RULE}\ndistributed_backend={self._process_group_backend}\nAll distributed processes registered."
            f" Starting with {self.world_size} processes\n{_RULE}\n"
        )

    def _meet(self, timeout: timedelta | None, store: Store | None = None) -> Store | None:
        return process_group.meet(**self._group(timeout), node_size=self.num_processes, store=store)

    def _start_over_library(self, timeout: timedelta | None, store: Store | None) -> None:
        process_group.start(**self._group(timeout), store=store)
        leave_at_the_end(timeout, self._launcher)

    def _group(self, timeout: timedelta | None) -> dict[str, Any]:
        return {
            "collective": self.collective,
            "rank": self.global_rank,
            "world_size": self.world_size,
            "timeout": timeout,
            "device": self.root_device,
            "library": self._process_group_backend,
        }

    def _get_process_group_backend(self) -> str:
        library = self.collective
        name, others = library.name, library.other_names
        asked = self._process_group_backend
        if asked not in (None, name, *others):
            names = " or ".join(map(repr, (name, *others)))
            raise CollectiveError(
                f"process_group_backend={asked!r}: {self.backend.name!r} needs {names}. Fix: leave it out"
            )
        return asked or name

    def all_reduce(self, tensor: Any, group: Any = None, reduce_op: Any = "mean") -> Any:
        """Reduce a tensor over the ranks, in place, as Lightning documents; return any other value unchanged.

        A tensor on the CPU is reduced on the chip, and stays on the CPU.
        """
        if not isinstance(tensor, torch.Tensor) or not torch.distributed.is_initialized():
            return tensor
        if tensor.device.type not in ("cpu", self.root_device.type):
            raise WrongDeviceError(
                f"cannot reduce a tensor on '{tensor.device}' over {self._process_group_backend!r}. Fix:"
                f" tensor.to('{self.root_device}')"
            )
        # Users often log values on the CPU, which the library cannot reduce.
        moved = tensor.detach().to(self.root_device) if tensor.device.type == "cpu" else tensor
        reduced = self.collective.all_reduce(moved, reduction_word(reduce_op), group)
        if moved is tensor:
            return reduced
        tensor.detach().copy_(reduced)  # detached: a tensor that requires a gradient cannot be written
        return tensor

    def all_gather(self, tensor: Any, group: Any = None, sync_grads: bool = False) -> Any:
        """Gather a tensor from all ranks, as Lightning documents; also with a dtype that the library cannot send."""
        arrived = super().all_gather(self.collective.as_carried(tensor), group, sync_grads)
        return self.collective.as_sent(arrived, like=tensor)

    def setup_module(self, module: Any) -> Any:
        """Set up a Fabric's ``module``; batch norms that the user converted use the batches of all ranks."""
        self._drive_sync_batch_norm(module)
        return super().setup_module(module)

    def _drive_sync_batch_norm(self, module: torch.nn.Module) -> None:
        # Batch norms converted by torch's own function use kernels for GPUs.
        if any(isinstance(each, torch.nn.SyncBatchNorm) for each in module.modules()):
            reject_unsupported(self.backend, "sync_batchnorm")
        synchronize(module, self.backend.name, only=torch.nn.SyncBatchNorm)

    def teardown(self) -> None:
        """Give the model its old batch norms back."""
        super().teardown()
        if self.namespace.is_trainer and self.lightning_module is not None:
            restore(self.lightning_module)

    def barrier(self, *args: Any, **kwargs: Any) -> None:
        """Wait for the other ranks."""
        if torch.distributed.is_initialized():
            self.collective.barrier()

    def on_exception(self, exception: BaseException) -> None:
        """Notify the other ranks of the failure, and add the dead ranks to ``exception``."""
        note_failure()
        name_dead_ranks(exception, self._launcher, self.global_rank)
        super().on_exception(exception)

    reduce = all_reduce  # the Trainer's name for it


def reject_wrong_seed() -> None:
    """Raise :class:`VariableError` for a seed in the environment that ``seed_everything`` cannot have written."""
    text = os.environ.get("PL_GLOBAL_SEED")
    if text is not None and seed_of_environment() is None:
        raise VariableError(
            f"PL_GLOBAL_SEED={text!r} is not from 0 to {LARGEST_SEED}. Fix: unset it, and call seed_everything()",
            variable="PL_GLOBAL_SEED",
        )


def reduction_word(reduce_op: Any) -> str:
    """Return our word for a reduction of Lightning's users: a string in any case, None, or torch's ``ReduceOp``."""
    if reduce_op is None:
        return "sum"
    word = reduce_op if isinstance(reduce_op, str) else str(reduce_op).rpartition(".")[2]
    word = word.lower()
    return "mean" if word == "avg" else word
