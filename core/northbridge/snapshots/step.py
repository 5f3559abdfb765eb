"""Recording of one step: hooks on the modules, their tensors and the optimizers, from its start to its end."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from threading import Event
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from northbridge.errors import ArgumentsError
from northbridge.snapshots.measures import measure, shard_of, tensors_in

_MOST_VALUES = 20_000
_capturing = Event()
_WRAPPERS = ("_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module")


class StepRecording:
    """One step of ``model``, as a line of a record. Its hooks are there from :meth:`install` to :meth:`remove`.

    A step that is ``captured`` as a graph runs no hooks: it has parameters, gradients and updates only. Raises
    :class:`ArgumentsError` for a model that several devices replicate in one process.
    """

    def __init__(self, model: torch.nn.Module, optimizers: Iterable[Any], step: int, *, captured: bool = False) -> None:
        self._model = unwrap(model)
        self._optimizers = [getattr(each, "optimizer", each) for each in optimizers]
        self._captured = captured
        self._hooks = ExitStack()
        self._counts: Counter[str] = Counter()
        self._open: list[tuple[torch.nn.Module, dict[str, Any], torch.Tensor | None]] = []
        self._seen: Any = WeakTensorKeyDictionary()
        self._values: list[dict[str, object]] = []
        self._calls: list[dict[str, Any]] = []
        self._flows: dict[int, dict[str, object]] = {}
        self._named: dict[str, dict[str, object]] = {"weight": {}, "batch": {}, "gradient": {}, "update": {}}
        self._names = {id(each): _clean(name) for name, each in self._model.named_parameters()}
        self._before: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        for name, tensor in (*self._model.named_parameters(), *self._model.named_buffers()):
            if not torch.nn.parameter.is_lazy(tensor):
                self._note("weight", _clean(name), tensor)
                if tensor.requires_grad:
                    self._before[_clean(name)] = tensor, shard_of(tensor).to("cpu", copy=True)
        self._device = next((each.device for each in self._model.parameters()), torch.device("cpu"))
        self._began = self._random()
        self.record: dict[str, Any] = {"step": step, "device": self._device.type, "drew_before": False}
        self.record |= {"values": self._values, "calls": self._calls, "flows": self._flows, "named": self._named}
        self.record["settings"] = {}

    def note_batch(self, batch: Any) -> None:
        """Record the tensors of a batch."""
        for tensor in tensors_in(batch):
            self._note("batch", str(len(self._named["batch"])), tensor)

    def install(self) -> None:
        """Install the hooks anew."""
        self.remove()
        if self._captured:
            return
        for path, module in _called_modules(self._model):
            compiled: Any = getattr(module, "_compiled_call_impl", None)
            if compiled is not None:
                # A hook would be a part of the compiled code.
                module._compiled_call_impl = partial(self._call, path, module, compiled)
                self._hooks.callback(setattr, module, "_compiled_call_impl", compiled)
            else:
                begin = module.register_forward_pre_hook(partial(self._begin, path), with_kwargs=True)
                self._hooks.callback(begin.remove)
                self._hooks.callback(module.register_forward_hook(self._end).remove)
        for optimizer in self._optimizers:
            if isinstance(optimizer, torch.optim.Optimizer):
                self._hooks.callback(optimizer.register_step_pre_hook(self._before_update).remove)

    def remove(self) -> None:
        """Remove the hooks."""
        self._hooks.close()
        self._open.clear()
        self._seen.clear()

    def finish(self) -> None:
        """Remove the hooks, and end the record with the updates, also of an optimizer that did not step."""
        self.remove()
        for optimizer in self._optimizers:
            self._note_gradients(optimizer)
        for name, (parameter, before) in self._before.items():
            now, is_narrow = shard_of(parameter), before.is_floating_point() and before.dtype.itemsize < 4
            wide = torch.float32 if is_narrow else before.dtype  # of float8, torch knows no wider one
            if now.shape == before.shape:  # FSDP gathers a parameter for a forward pass without a backward pass
                self._note("update", name, now.to("cpu", wide) - before.to(wide))
        self.record["left_out"] = self._is_full()

    def _call(self, path: str, module: torch.nn.Module, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._begin(path, module, args, kwargs)
        output = call(*args, **kwargs)
        self._end(module, args, output)
        return output

    def _begin(self, path: str, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        if _traces():
            return
        # In a backward pass, checkpointed modules are called again.
        if torch._C._current_graph_task_id() != -1 or self._is_full():
            self._open.append((module, {}, None))
            return
        random = self._random()
        if not self._calls:
            self.record["drew_before"] = not torch.equal(self._began, random)
        autocast = torch.get_autocast_dtype(self._device.type) if torch.is_autocast_enabled(self._device.type) else ""
        call = {
            "path": path,
            "call": self._counts[path],
            "number": len(self._calls),
            "inside": next((call["number"] for _, call, _ in reversed(self._open) if call), -1),
            "of": type(module).__name__,
            "training": module.training,
            "drops": _drops(module),
            "random": zlib.crc32(bytes(random.tolist())),
            "autocast": str(autocast).removeprefix("torch."),
            "inputs": [self._value(each) for each in (*tensors_in(args), *tensors_in(kwargs))],
        }
        self._counts[path] += 1
        self._calls.append(call)
        self._open.append((module, call, random))

    def _end(self, module: torch.nn.Module, _args: Any, output: Any) -> None:
        if _traces():
            return
        while self._open:
            opened, call, random = self._open.pop()  # a call that raised did not end
            if opened is module:
                if random is not None:
                    call["drew"] = not torch.equal(random, self._random())
                    call["outputs"] = [self._value(each) for each in tensors_in(output)]
                return

    def _value(self, tensor: torch.Tensor) -> int:
        """Return the number of the tensor's measures; a tensor that has not changed is measured once."""
        version = 0 if tensor.is_inference() else tensor._version
        known, number = self._seen.get(tensor, (-1, len(self._values)))
        if known == version:
            return int(number)
        number = len(self._values)
        self._values.append(measure(tensor))
        self._seen[tensor] = version, number
        if tensor.requires_grad and torch.is_grad_enabled():
            flow: Any = torch.Tensor.register_hook(tensor, partial(self._note_flow, number))  # type: ignore[no-untyped-call]
            self._hooks.callback(flow.remove)
        return number

    def _note_flow(self, number: int, gradient: torch.Tensor | None) -> None:
        if gradient is not None and number not in self._flows and not (self._is_full() or _traces()):
            self._flows[number] = measure(gradient)

    def _note(self, kind: str, name: str, tensor: torch.Tensor) -> None:
        self._named[kind].setdefault(name, measure(tensor))

    def _is_full(self) -> bool:
        return len(self._values) + len(self._flows) >= _MOST_VALUES

    def _random(self) -> torch.Tensor:
        of_chip = getattr(getattr(torch, self._device.type, None), "get_rng_state", None)
        return torch.cat([torch.get_rng_state(), *([of_chip(self._device).cpu()] if of_chip else [])])

    def _before_update(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record the gradients now, or after the closure, in which Lightning does the whole step."""
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        if closure is None:
            self._note_gradients(optimizer)
            return None

        def with_record() -> Any:
            result = closure()
            self._note_gradients(optimizer)
            return result

        return (
            ((args[0], with_record, *args[2:]), kwargs) if len(args) > 1 else (args, {**kwargs, "closure": with_record})
        )

    def _note_gradients(self, optimizer: Any) -> None:
        """Record the gradients that ``optimizer`` gets in its first step; later ones are those of another closure."""
        scale = getattr(optimizer, "grad_scale", None)  # of a fused optimizer, which unscales by itself
        for group in getattr(optimizer, "param_groups", ()):
            for parameter in group["params"]:
                name = self._names.get(id(parameter), "")
                if parameter.grad is not None and name and name not in self._named["gradient"]:
                    self._note("gradient", name, parameter.grad if scale is None else parameter.grad / scale)
                    self.record["settings"][name] = _describe(group)


def _describe(group: dict[str, Any]) -> str:
    """Return the settings of a group of parameters as text, in the order of their names."""
    numbers = {
        name: each.item() if isinstance(each, torch.Tensor) and each.numel() == 1 else each
        for name, each in group.items()
    }
    kept = (int, float, str, tuple, type(None))
    return "; ".join(f"{name}={each!r}" for name, each in sorted(numbers.items()) if isinstance(each, kept))[:2000]


def _called_modules(root: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module]]:
    """Yield each module that Python calls: nothing inside a compiled one, and no module of TorchScript."""
    compiled: tuple[str, ...] = ()
    for path, module in root.named_modules():
        if not path.startswith(compiled) and not isinstance(module, torch.jit.ScriptModule):
            if not any(each in module._modules for each in _WRAPPERS[1:]):  # it has the path of the module inside
                yield _clean(path), module
            if hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None:
                compiled += (f"{path}." if path else "",)


@contextmanager
def unrecorded() -> Iterator[None]:
    """Record nothing in the block, which captures a graph: a copy to the host would be an error there."""
    _capturing.set()
    try:
        yield
    finally:
        _capturing.clear()


def _traces() -> bool:
    """Return True where tensors have no numbers: in a capture, ``torch.compile``, ``torch.vmap`` and its relatives."""
    return _capturing.is_set() or torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def _clean(path: str) -> str:
    return ".".join(each for each in path.split(".") if each not in _WRAPPERS)


def _drops(module: torch.nn.Module) -> float:
    """Return the rate by which the module itself may drop values: its own, or that of a child for a function."""
    named = (each for name, each in vars(module).items() if "drop" in name.lower() and isinstance(each, float))
    rates = [each for each in named if 0 <= each <= 1]
    kind = torch.nn.modules.dropout._DropoutNd
    return max([*rates, *(each.p for each in (module, *module.children()) if isinstance(each, kind))], default=0.0)


def unwrap(module: torch.nn.Module) -> torch.nn.Module:
    """Return the module in a wrapper that adds no parameter: a Fabric's, or DistributedDataParallel."""
    if any(isinstance(each, torch.nn.DataParallel) and len(each.device_ids) > 1 for each in module.modules()):
        raise ArgumentsError("DataParallel shares hooks. Fix: use DistributedDataParallel")
    inner = getattr(module, "module", None)
    while isinstance(inner, torch.nn.Module) and {*inner.parameters()} == {*module.parameters()}:
        module, inner = inner, getattr(inner, "module", None)
    return module
