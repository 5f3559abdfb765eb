"""Base of every strategy: acquires the chip, moves the model to it, and tells the bridge about each step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from northbridge.bridge import Bridge
from northbridge.discovery.declared import get
from northbridge.discovery.loaded import load
from northbridge.errors import WrongDeviceError
from northbridge.lightning.accelerators.accelerator import announce_simulation, announced, is_ours
from northbridge.lightning.plugins.float8_request import settle
from northbridge.lightning.plugins.precision import reject_cast
from northbridge.lightning.strategies.compilation import reject_compiler
from northbridge.lightning.strategies.dtype_warnings import warn_of_batch, warn_of_module
from northbridge.lightning.strategies.fused_optimizers import keep_counts, reject_fused
from northbridge.lightning.strategies.moved_parameters import follow, following, reject_left_behind
from northbridge.lightning.strategies.saved_state import _SavedStateMixin
from northbridge.lightning.strategies.unsupported import reject_data_parallel, reject_inference_mode
from northbridge.lightning.strategies.unsupported_tensors import reject_sparse_gradients, reject_tensors, tensors_of

if TYPE_CHECKING:
    import torch

    from northbridge.backend import Backend


class LoadFirst:
    """Load a backend when unpickled.

    A spawned rank unpickles its strategy first, and ``torch.device("acme", 0)`` is an error before acme is loaded. So a
    strategy's pickled state begins with this object. It also carries the announcements that the user has seen, so that
    a rank does not repeat them.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> tuple[object, ...]:
        return _load_first, (self.name, tuple(announced))


def _load_first(name: str, told: tuple[str, ...]) -> LoadFirst:
    load(get(name))
    announced.update(told)
    return LoadFirst(name)


class _ChipMixin(_SavedStateMixin):
    """Runs on the accelerator's chip.

    A combined class inherits only from Lightning's ``stock_class`` and from mixins, so that a user's strategy can get
    our class in place. If Trainer and Fabric call a method by different names, the class has both, and each host calls
    its own.
    """

    _saw_a_batch = False
    _rooted: tuple[torch.device, torch.device] | None = None
    """Lightning's root device and the chip's, cached: each step asks for it."""

    @property
    def backend(self) -> Backend:
        """The backend of this strategy's accelerator."""
        backend: Backend = self.accelerator.backend
        return backend

    @property
    def root_device(self) -> torch.device:
        """The device of this rank, by its name in this process."""
        device: torch.device = super().root_device
        if self._rooted is not None and self._rooted[0] is device:
            return self._rooted[1]
        if not is_ours(self.accelerator) or device.type != self.backend.device.type:
            return device
        root = self.backend.device.root(device.index or 0)
        self._rooted = device, root
        return root

    def setup_environment(self) -> None:
        """Acquire this rank's device, and meet the other ranks."""
        self.acquire_device()
        reject_cast(self.backend, self._precision_asked(), self.root_device)
        super().setup_environment()
        self.announce()

    def acquire_device(self) -> None:
        """Acquire this rank's device; a repeated call does nothing."""
        self.accelerator.acquire(super().root_device, local_rank=int(self.local_rank), world_size=int(self.world_size))

    def announce(self) -> None:
        """Announce a simulated chip on rank 0; called as soon as the ranks are known."""
        # Each rank of a job may also run on one device by itself, where it is the first.
        rank_zero = self.namespace.fabric_module("utilities.rank_zero")
        if self.is_global_zero and rank_zero.rank_zero_only.rank == 0:
            announce_simulation(self.backend)

    def module_to_device(self, module: torch.nn.Module) -> None:
        """Move a Fabric's ``module`` to this rank's device, unless the chip cannot hold its tensors."""
        reject_tensors(self.backend, module, self.root_device)
        with following(module):
            super().module_to_device(module)
        self._check_moved(module)

    def _check_moved(self, module: torch.nn.Module) -> None:
        assert_on_device(module, self.root_device)
        self._warn_of(module)

    def _warn_of(self, module: torch.nn.Module) -> None:
        if self.is_global_zero:  # all ranks have the same module
            warn_of_module(self.backend, module, self._precision_asked())

    def _precision_asked(self) -> str:
        plugin = self.precision_plugin if self.namespace.is_trainer else self.precision
        return str(getattr(plugin, "precision", ""))  # the user's own plugin may not have a precision's name

    # Bound on first use, and cached: a training step does no look-up.

    @cached_property
    def _after_backward(self) -> Callable[[], None]:
        return self.backend.bridge.after_backward

    @cached_property
    def _after_evaluation(self) -> Callable[[], None]:
        return self.backend.bridge.after_evaluation

    @cached_property
    def _after_step(self) -> Callable[[], None]:
        return self.backend.bridge.after_step

    def _follow_moves(self, optimizers: Iterable[Any]) -> None:
        for optimizer in optimizers:
            follow(optimizer)
            reject_left_behind(optimizer, self.root_device)

    def _settle_fused(self, optimizers: Iterable[Any]) -> None:
        for optimizer in optimizers:
            reject_fused(self.backend, optimizer)
            keep_counts(self.backend, optimizer)

    def optimizer_step(self, *args: Any, **kwargs: Any) -> Any:
        """Step the optimizer, and tell the bridge."""
        result = super().optimizer_step(*args, **kwargs)
        self._after_step()
        return result

    def setup_module(self, module: torch.nn.Module) -> torch.nn.Module:
        """Set up a Fabric's ``module``, and let the bridge know of its evaluation steps."""
        from torch.nn import Module

        reject_tensors(self.backend, module, self.root_device)  # tensors that were not moved before
        reject_sparse_gradients(self.backend, module, self.root_device)
        reject_data_parallel(self.backend, module, self.root_device)
        settle(module, None)
        if isinstance(getattr(module, "_orig_mod", None), Module):  # the user keeps the compiled one in the wrapper
            reject_compiler(self.backend, getattr(module, "_compile_kwargs", None) or {})  # noted by Lightning
        module = super().setup_module(module)
        if type(self.backend.bridge).after_evaluation is not Bridge.after_evaluation:
            module.register_forward_hook(partial(_after_forward, self.backend.name))
        if self.backend.present_capabilities().inference_mode.denied:
            module.register_forward_pre_hook(partial(reject_inference_mode, self.backend.name))
        return module

    def batch_to_device(self, batch: Any, *args: Any, **kwargs: Any) -> Any:
        """Move ``batch`` to this rank's device; warn of dtypes in the first batch that the chip computes as others."""
        if not self._saw_a_batch:
            self._saw_a_batch = True
            if self.is_global_zero:
                warn_of_batch(self.backend, batch)
        return super().batch_to_device(batch, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        inherited = super().__getstate__()  # Lightning's removes what cannot be pickled
        state = {key: value for key, value in dict(inherited).items() if key not in _BOUND}
        first = {} if self._accelerator is None else {"_load_first": LoadFirst(self.backend.name)}
        return {**first, **state}


_BOUND = ("_rooted", "_after_backward", "_after_evaluation", "_after_step")


def _after_forward(backend: str, _module: object, _inputs: object, _output: object) -> None:
    # A hook of the user's module, which may be copied and pickled with it: so it holds only a name.
    import torch

    if not torch.is_grad_enabled():
        get(backend).bridge.after_evaluation()


def assert_on_device(module: Any, device: torch.device) -> None:
    """Raise :class:`WrongDeviceError` if a parameter or buffer of ``module`` is not on ``device``."""
    for kind, name, tensor in tensors_of(module):
        if tensor.device != device and tensor.device.type != "meta":
            raise WrongDeviceError(
                f"{kind} {name!r} of {type(module).__name__} stayed on '{tensor.device}'. Fix: let .to('{device}')"
                " move it"
            )
