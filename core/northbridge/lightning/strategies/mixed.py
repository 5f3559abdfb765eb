"""DDP over several vendors' chips in one job, one vendor on each node: ``strategy="ddp_mixed"``."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from datetime import timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from northbridge.collective import Collective
from northbridge.device import Device
from northbridge.errors import ArgumentsError, UnsupportedError, WeightsDisagreeError
from northbridge.host_collective.collective import HostCollective
from northbridge.launch import process_group
from northbridge.lightning.namespaces import _NamespaceMixin
from northbridge.lightning.plugins.containers import values_in
from northbridge.lightning.strategies.gradients import GradientMean, Vendors, find_vendors
from northbridge.lightning.strategies.replicas import Distance, parameters_of, synchronize
from northbridge.lightning.strategies.unsupported import reject_to_add_sparse_gradients
from northbridge.process_record import logger

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store


class _MixedDDPMixin(_NamespaceMixin):
    """Trains on several vendors' chips, and on the CPU, in one job: DDP with one vendor's chips on each node.

    The ranks of a vendor add up their gradients over its library, and one rank of each over Gloo. All other calls of
    Lightning are over Gloo. Vendors round an optimizer's step differently, so every ``sync_every`` steps the parameters
    and the optimizer's state are made rank 0's. The largest relative distance of a parameter from rank 0's is logged
    then, and is a :class:`WeightsDisagreeError` above ``tolerance``. With ``sync_every=1``, the ranks' weights are
    equal to the bit after each step. ``weights={"acme": 3, "cpu": 1}`` sets how much a rank of each backend counts in
    the mean of the gradients; without it, ranks count alike. Other arguments are DDPStrategy's.
    """

    _needs: tuple[str, ...] = ()  # a vendor with one rank does not use its library

    distance: float | None = None
    """The largest relative distance that the last synchronization found; None before the first."""

    def __init__(
        self,
        *args: Any,
        sync_every: int = 100,
        weights: Mapping[str, float] | None = None,
        tolerance: float = 1e-2,
        **kwargs: Any,
    ) -> None:
        if not (isinstance(sync_every, int) and sync_every >= 1):
            raise ArgumentsError(f"sync_every={sync_every!r} is not 1 or more. Fix: sync_every=100")
        if not (isinstance(tolerance, (int, float)) and tolerance > 0):
            raise ArgumentsError(f"tolerance={tolerance!r} is not above 0. Fix: tolerance=1e-2")
        if weights is not None and not isinstance(weights, Mapping):
            raise ArgumentsError(f"weights={weights!r} is not a mapping. Fix: a number for each name")
        for name, weight in (weights or {}).items():
            if not (isinstance(weight, (int, float)) and weight > 0 and math.isfinite(weight)):
                raise ArgumentsError(f"weights= gives {name!r} {weight!r}. Fix: a number above 0")
        for name in ("ddp_comm_hook", "model_averaging_period"):
            if kwargs.get(name) is not None:
                raise ArgumentsError(f"{name}=: 'ddp_mixed' reduces gradients by its own hook. Fix: leave it out")
        super().__init__(*args, **kwargs)
        self.sync_every = sync_every
        # In one order, for the ranks compare it as text.
        self.weights = None if weights is None else {name: float(weights[name]) for name in sorted(weights)}
        self.tolerance = tolerance
        self._world: dist.ProcessGroup | None = None
        self._vendors: list[Vendors] = []
        self._means: list[GradientMean] = []
        self._steps: WeakKeyDictionary[Any, int] = WeakKeyDictionary()  # of each optimizer since it was synchronized
        self._all_steps = 0
        self._names: dict[int, str] = {}
        self._rows: int | None = None  # of the first batch
        self._row_hooks: list[Any] = []
        self._has_compared_rows = self.weights is not None

    @cached_property
    def collective(self) -> Collective:
        """Gloo over copies in the host's memory: all ranks have it, on any chip."""
        host = HostCollective()
        host.device_type = self.backend.device.type
        host.pins_memory = self.backend.capabilities.pinned_memory.answer == "yes"
        host.register()
        return host

    def _configure_launcher(self) -> None:
        if self._start_method != "popen":
            raise UnsupportedError(
                f"start_method={self._start_method!r}: each node of a mixed job runs the script. Fix: leave it out",
                capability="strategy",
            )
        if self._precision_asked() == "16-mixed" and type(self.backend.device).grad_scaler is not Device.grad_scaler:
            raise UnsupportedError(
                f"precision='16-mixed': {self.backend.name!r} has a gradient scaler of its own, which may wait for all"
                " ranks. Fix: precision='bf16-mixed'",
                capability="precision",
            )
        super()._configure_launcher()

    def _meet(self, timeout: timedelta | None, store: Store | None = None) -> Store | None:
        options = {"sync_every": self.sync_every, "weights": self.weights, "tolerance": self.tolerance}
        alike = {**options, "devices": self.num_processes, "precision": self._precision_asked()}
        trains_on = f"any chip ({', '.join(f'{name}={value!r}' for name, value in alike.items())})"
        return process_group.meet(
            **self._group(timeout), node_size=self.num_processes, store=store, trains_on=trains_on
        )

    def _setup_distributed(self) -> None:
        super()._setup_distributed()
        world = dist.group.WORLD
        if world is not None and self._world is not world:
            self._world, self._vendors = world, [find_vendors(self.backend, self.root_device, self._timeout)]

    def _register_ddp_hooks(self) -> None:
        self._hook(self.model)

    def setup_module(self, module: Any) -> Any:
        """Wrap a Fabric's ``module`` in DDP, with the hook for its gradients."""
        wrapped = super().setup_module(module)
        self._hook(wrapped)
        return wrapped

    def _hook(self, module: DistributedDataParallel) -> None:
        reject_to_add_sparse_gradients("ddp_mixed", module.module, None)
        if len(self._means) == len(self._vendors):
            # Groups of its own: one backward pass may reduce several modules, each in a thread of its own.
            self._vendors.append(find_vendors(self.backend, self.root_device, self._timeout))
        vendors = self._vendors[len(self._means)]
        mean = GradientMean(vendors, vendors.mean_factor(self.weights), pinned=self.collective.pins_memory)
        self._means.append(mean)
        module.register_comm_hook(mean, _reduce)
        self._names |= {id(each): name for name, each in module.module.named_parameters()}
        if not self._has_compared_rows:
            self._row_hooks.append(module.register_forward_pre_hook(partial(_note_rows, self), with_kwargs=True))

    def optimizer_step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Step the optimizer; every ``sync_every`` steps, make its parameters and its state rank 0's."""
        result = super().optimizer_step(optimizer, *args, **kwargs)
        self._all_steps += 1
        if not self._has_compared_rows:
            self._compare_rows()
        self._steps[optimizer] = self._steps.get(optimizer, 0) + 1
        if self._steps[optimizer] >= self.sync_every:
            self._synchronize(optimizer)
        return result

    def _synchronize(self, optimizer: Any) -> None:
        self._steps[optimizer] = 0
        found = synchronize(optimizer)
        self.distance = found.value
        step = self._all_steps
        name = self._names.get(id(parameters_of(optimizer)[found.parameter]), f"number {found.parameter}")
        if self.is_global_zero:
            logger.info(
                "step %d: the farthest rank, %d, was %.1e from rank 0, in %r", step, found.rank, found.value, name
            )
        trainer = self._attached_trainer if self.namespace.is_trainer else None
        for each in () if trainer is None else trainer.loggers:
            each.log_metrics({"distance_of_replicas": found.value}, step=step)
        if found.value > self.tolerance:
            raise WeightsDisagreeError(self._say(found, name), ranks=(found.rank,))

    def _say(self, found: Distance, name: str) -> str:
        return (
            f"rank {found.rank} ({self._vendors[0].names[found.rank]}) is {found.value:.1e} from rank 0 in {name!r} at"
            f" step {self._all_steps}, above tolerance={self.tolerance:g}. Fix: a smaller sync_every=; if it stays,"
            " compare the chips by `northbridge diff`"
        )

    def _synchronize_all(self) -> None:
        for optimizer in [each for each, steps in self._steps.items() if steps]:
            self._synchronize(optimizer)

    def save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        """Save, and make the other ranks what is saved, so that a run that resumes goes on as this one does."""
        if not self._is_alone():
            self._synchronize_all()
        super().save_checkpoint(*args, **kwargs)

    def on_train_start(self) -> None:
        """Count the steps from those of the checkpoint that a fit resumes from."""
        super().on_train_start()
        self._all_steps = self._attached_trainer.global_step

    def on_train_end(self) -> None:
        """Make all ranks equal."""
        self._synchronize_all()
        super().on_train_end()

    def teardown(self) -> None:
        """End the threads that reduce gradients."""
        for each in self._means:
            each.end()
        self._means.clear()
        self._steps.clear()
        super().teardown()

    def _compare_rows(self) -> None:
        self._has_compared_rows = True
        for each in self._row_hooks:
            each.remove()
        self._row_hooks.clear()
        rows: list[Any] = [None] * self.world_size
        dist.all_gather_object(rows, self._rows)
        if self.is_global_zero and len(set(rows)) > 1:
            found = ", ".join(f"{count} on rank {rank}" for rank, count in enumerate(rows))
            warnings.warn(
                f"the ranks' first batches have other sizes ({found}), and each rank counts alike. Fix: the same batch"
                " size, or weights=",
                stacklevel=2,
            )


def _reduce(mean, bucket):  # type: ignore[no-untyped-def]  # torch compares the annotations, which are strings here
    return mean.reduce(bucket)


def _note_rows(strategy: Any, _module: object, inputs: Any, named: Any) -> None:
    tensors = (each for each in values_in([*inputs, named]) if isinstance(each, torch.Tensor) and each.dim())
    strategy._rows = next((len(each) for each in tensors), None)
