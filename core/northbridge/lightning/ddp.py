"""The one DDP strategy."""

from __future__ import annotations

import atexit
import os
from typing import TYPE_CHECKING, Any, Literal

from northbridge.cluster import check_environment, check_numbers, explain_connection_failure
from northbridge.collective import ignore_doubt_about_device
from northbridge.errors import CollectiveError, UnsupportedError, WrongDeviceError
from northbridge.launch_environment import Run
from northbridge.lightning.dead_ranks import name_dead_ranks
from northbridge.lightning.orphans import end_with_launcher
from northbridge.lightning.strategy import make_chip_strategy

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from northbridge.backend import Backend
    from northbridge.launch_environment import Launcher
    from northbridge.lightning.faces import Face

_LAUNCHERS: dict[str, Launcher] = {
    "LightningEnvironment": "lightning",
    "TorchElasticEnvironment": "torchrun",
    "SLURMEnvironment": "slurm",
    "LSFEnvironment": "lsf",
    "MPIEnvironment": "mpi",
}


def make_ddp_strategy(face: Face, checkpoint_io: Any, launcher: Any) -> Any:
    """Return the DDP strategy class of ``face``."""
    stock: Any = face.module("strategies").DDPStrategy
    chip_strategy: Any = make_chip_strategy(face, stock, checkpoint_io)
    rank_zero_info: Any = face.fabric_module("utilities.rank_zero").rank_zero_info
    reset_seed: Any = face.fabric_module("utilities.seed").reset_seed

    class DDPStrategy(chip_strategy):  # type: ignore[misc]  # made at run time
        """Train on several devices of a chip, a process each, over the chip's communication library."""

        _ddp_kwargs: dict[str, Any]

        sigterm_noted = False
        """Whether this rank has received SIGTERM, which ends the training at the next batch."""

        def _configure_launcher(self) -> None:
            if self._start_method in ("fork", "forkserver"):
                refuse_fork(self.backend)
            self._process_group_backend = self._get_process_group_backend()
            check_environment(self._run("launch"))
            super()._configure_launcher()
            if self._start_method == "popen":
                end_with_launcher(starts_ranks=not self.cluster_environment.creates_processes_externally)
            else:
                self._launcher = launcher(self, start_method=self._start_method)

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
            check_numbers(self._run("launch"))
            super().set_world_ranks()

        def _set_world_ranks(self) -> None:
            check_numbers(self._run("launch"))
            super()._set_world_ranks()

        def _setup_distributed(self) -> None:
            if face.is_trainer:
                reset_seed()
                self.accelerator.seed()
                self.set_world_ranks()
            else:
                self._set_world_ranks()
            self.sigterm_noted = False
            ignore_doubt_about_device()  # where the user has made the process group too
            self._ddp_kwargs = {**self.backend.collective.ddp_options(), **self._ddp_kwargs}
            self._start_process_group()
            self.backend.collective.assert_carries(self.root_device)

        def _start_process_group(self) -> None:
            import torch.distributed

            if torch.distributed.is_initialized():
                return
            run = self._run("rank")
            if run.launcher == "lightning":
                check_environment(run)
            os.environ["MASTER_ADDR"] = self.cluster_environment.main_address
            os.environ["MASTER_PORT"] = str(self.cluster_environment.main_port)
            if run.launcher != "lightning":
                check_environment(run)
            try:
                self.backend.collective.initialize(
                    rank=self.global_rank,
                    world_size=self.world_size,
                    timeout=self._timeout,
                    device=self.root_device,
                )
            except (OSError, RuntimeError) as error:
                reason = explain_connection_failure(run, error)
                if reason is None:
                    raise
                raise reason from error
            atexit.register(_end_process_group)
            rank_zero_info(
                f"distributed_backend={self._process_group_backend}: all {self.world_size} processes registered"
            )

        def _get_process_group_backend(self) -> str:
            name: str = self.backend.collective.name
            asked = self._process_group_backend
            if asked not in (None, name):
                raise CollectiveError(
                    f"process_group_backend={asked!r} was asked for, but tensors on {self.backend.name!r} travel over"
                    f" {name!r}; leave the argument out"
                )
            return name

        def _determine_ddp_device_ids(self) -> None:
            # With device ids, Lightning enters a CUDA stream. A module on one device needs none.
            return None

        def all_reduce(self, tensor: Any, group: Any = None, reduce_op: Any = "mean") -> Any:
            """Reduce a tensor over the ranks, in place, as Lightning documents; anything else is returned as it is.

            A tensor on the CPU is reduced on the chip, and stays on the CPU.
            """
            import torch

            if not isinstance(tensor, torch.Tensor) or not torch.distributed.is_initialized():
                return tensor
            if tensor.device.type not in ("cpu", self.root_device.type):
                raise WrongDeviceError(
                    f"a tensor on '{tensor.device}' cannot be reduced over {self._process_group_backend!r}: move it"
                    f" first, tensor.to('{self.root_device}')"
                )
            # What a user logs is often on the CPU, where the library reaches nothing.
            moved = tensor.detach().to(self.root_device) if tensor.device.type == "cpu" else tensor
            reduced = self.backend.collective.all_reduce(moved, reduction_word(reduce_op), group)
            if moved is tensor:
                return reduced
            tensor.detach().copy_(reduced)  # which may want a gradient, and may not be written to then
            return tensor

        def all_gather(self, tensor: Any, group: Any = None, sync_grads: bool = False) -> Any:
            """Gather a tensor of all ranks, as Lightning documents; also of a dtype that the library does not know."""
            collective = self.backend.collective
            arrived = super().all_gather(collective.as_carried(tensor), group, sync_grads)
            return collective.as_sent(arrived, like=tensor)

        def barrier(self, *args: Any, **kwargs: Any) -> None:
            import torch.distributed

            if torch.distributed.is_initialized():
                self.backend.collective.barrier()

        def on_exception(self, exception: BaseException) -> None:
            name_dead_ranks(exception, self._launcher, self.global_rank)
            super().on_exception(exception)

        # Lightning wraps a module in DDP here, where the first broadcast is: for the Trainer and for a Fabric.

        def _setup_model(self, model: Any) -> Any:
            refuse_uncarried(self.backend, model, self._ddp_kwargs)
            return super()._setup_model(model)

        def setup_module(self, module: Any) -> Any:
            refuse_uncarried(self.backend, module, self._ddp_kwargs)
            return super().setup_module(module)

        def _register_ddp_hooks(self) -> None:
            # Lightning registers a communication hook for CUDA alone, and drops it elsewhere without a word.
            hook = self._ddp_comm_hook
            if hook is None:
                return
            if self._ddp_comm_wrapper is not None:
                hook = self._ddp_comm_wrapper(hook)
            self.model.register_comm_hook(state=self._ddp_comm_state, hook=hook)

        # The Trainer's names for the same.
        setup_distributed = _setup_distributed
        determine_ddp_device_ids = _determine_ddp_device_ids
        reduce = all_reduce

    return DDPStrategy


def reduction_word(reduce_op: Any) -> str:
    """Return our word for what Lightning's users write: a string in any case, ``None``, or torch's ``ReduceOp``."""
    if reduce_op is None:
        return "sum"
    word = reduce_op if isinstance(reduce_op, str) else str(reduce_op).rpartition(".")[2]
    word = word.lower()
    return "mean" if word == "avg" else word


def refuse_fork(backend: Backend) -> None:
    """Raise :class:`UnsupportedError` where the chip denies that ranks may be forked."""
    claim = backend.present_capabilities().fork
    if claim.denied:
        raise UnsupportedError(
            f"ranks on {backend.name!r} cannot be forked: {claim.reason}; write strategy='ddp_spawn', or strategy='ddp'"
            " in a script",
            capability="fork",
        )


def refuse_uncarried(backend: Backend, module: torch.nn.Module, options: Mapping[str, Any]) -> None:
    """Raise :class:`CollectiveError` for a tensor of ``module`` that DDP would send, and the library does not know.

    ``options`` are the arguments of DDP, which sends buffers unless ``broadcast_buffers`` is False.
    """
    sent: list[tuple[str, str, torch.Tensor]] = [("parameter", name, each) for name, each in module.named_parameters()]
    if options.get("broadcast_buffers", True):
        sent += [("buffer", name, each) for name, each in module.named_buffers()]
    ignored = getattr(module, "_ddp_params_and_buffers_to_ignore", ())  # where torch keeps what a user has it ignore
    for kind, name, tensor in sent:
        if name not in ignored and not backend.collective.carries(tensor.dtype):
            dtype = str(tensor.dtype).removeprefix("torch.")
            raise CollectiveError(
                f"the {kind} {name!r} is {dtype}, which {backend.collective.name!r} does not know, and DDP would"
                f" send it to the other ranks of {backend.name!r}: make it another dtype"
                + (", or write strategy=DDPStrategy(broadcast_buffers=False)" if kind == "buffer" else "")
            )


def _end_process_group() -> None:
    # A library may hold threads and sockets that outlive the interpreter's teardown badly.
    import torch.distributed

    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
