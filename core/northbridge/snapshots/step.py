"""Recording of one step: hooks on the modules, their tensors and the optimizers, from its start to its end."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import torch

from northbridge.snapshots.measures import measure, shard_of, tensors_in

_MOST_VALUES = 20_000
_WRAPPERS = ("_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module")


class StepRecording:
    """One step of ``model``, as lines of a record. Its hooks are there from :meth:`install` to :meth:`remove`.

    A step that is ``captured`` as a graph runs no hooks: it has parameters, gradients and updates only.
    """

    def __init__(self, model: torch.nn.Module, optimizers: Iterable[Any], step: int, *, captured: bool = False) -> None:
        device = next((each.device for each in model.parameters()), torch.device("cpu"))
        self.lines: list[dict[str, object]] = [{"kind": "step", "step": step, "device": device.type, "random": 0}]
        self._model = model
        self._optimizers = [getattr(each, "optimizer", each) for each in optimizers]
        self._captured = captured
        self._handles: list[Any] = []
        self._compiled: list[torch.nn.Module] = []
        self._values = self._calls = self._batches = 0
        self._counts: Counter[str] = Counter()
        self._open: list[tuple[torch.nn.Module, dict[str, object] | None]] = []
        self._seen: dict[int, tuple[Any, int, int]] = {}
        self._names = {id(each): _clean(name) for name, each in model.named_parameters()}
        self._before: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        self._stepped: set[int] = set()
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            if not torch.nn.parameter.is_lazy(tensor):
                self._note("weight", _clean(name), tensor)
                if tensor.requires_grad:
                    self._before[_clean(name)] = tensor, shard_of(tensor).to("cpu", copy=True)
        self._device = device.type
        states = [torch.get_rng_state]
        if device.type not in ("cpu", "meta") and hasattr(torch.get_device_module(device), "get_rng_state"):
            states.append(partial(torch.get_device_module(device).get_rng_state, device))
        self._places = torch.empty(0)
        self._random_states: list[Callable[[], torch.Tensor]] = states
        self.lines[0]["random"] = self._random()

    def note_batch(self, batch: Any) -> None:
        """Record the tensors of a batch."""
        for tensor in tensors_in(batch):
            self._note("batch", str(self._batches), tensor)
            self._batches += 1

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
                self._compiled.append(module)
            else:
                begin = module.register_forward_pre_hook(partial(self._begin, path), with_kwargs=True)
                self._handles += [begin, module.register_forward_hook(self._end)]
        for optimizer in self._optimizers:
            if isinstance(optimizer, torch.optim.Optimizer):
                self._handles.append(optimizer.register_step_pre_hook(self._before_update))

    def remove(self) -> None:
        """Remove the hooks."""
        for handle in self._handles:
            handle.remove()
        for module in self._compiled:
            wrapped: Any = module._compiled_call_impl
            module._compiled_call_impl = wrapped.args[2]
        self._handles, self._compiled, self._open = [], [], []
        self._seen.clear()

    def finish(self) -> None:
        """Remove the hooks, and end the record with the updates, also of an optimizer that did not step."""
        self.remove()
        for optimizer in self._optimizers:
            self._note_gradients(optimizer)
        for name, (parameter, before) in self._before.items():
            now, wide = shard_of(parameter), torch.promote_types(before.dtype, torch.float32)
            if now.shape == before.shape:  # FSDP gathers a parameter for a forward pass without a backward pass
                self._note("update", name, now.to("cpu", wide) - before.to(wide))
        self.lines.append({"kind": "end", "left_out": self._values >= _MOST_VALUES})
        self._before.clear()

    def _call(self, path: str, module: torch.nn.Module, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._begin(path, module, args, kwargs)
        output = call(*args, **kwargs)
        self._end(module, args, output)
        return output

    def _begin(self, path: str, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        if _traces():
            return
        if _recomputes() or self._values >= _MOST_VALUES:
            self._open.append((module, None))
            return
        inside = next((call["number"] for _, call in reversed(self._open) if call is not None), -1)
        autocast = torch.is_autocast_enabled(self._device)
        call: dict[str, object] = {
            "kind": "call",
            "path": path,
            "call": self._counts[path],
            "number": self._calls,
            "inside": inside,
            "of": type(module).__name__,
            "training": module.training,
            "drops": _drops(module),
            "autocast": str(torch.get_autocast_dtype(self._device)).removeprefix("torch.") if autocast else "",
            "inputs": [self._value(each) for each in (*tensors_in(args), *tensors_in(kwargs))],
            "random": self._random(),
        }
        self._counts[path] += 1
        self._calls += 1
        self._open.append((module, call))

    def _end(self, module: torch.nn.Module, _args: Any, output: Any) -> None:
        if _traces():
            return
        while self._open:
            opened, call = self._open.pop()  # a call that raised did not end
            if opened is module:
                if call is not None:
                    call["drew"] = call["random"] != self._random()
                    call["outputs"] = [self._value(each) for each in tensors_in(output)]
                    self.lines.append(call)
                return

    def _value(self, tensor: torch.Tensor) -> int:
        """Return the number of the tensor's measures; a tensor that has not changed is measured once."""
        version = 0 if tensor.is_inference() else tensor._version
        known = self._seen.get(id(tensor))
        if known is not None and known[0]() is tensor and known[1] == version:
            return known[2]
        number = self._add(tensor)
        self._seen[id(tensor)] = (weakref.ref(tensor), version, number)
        if tensor.requires_grad and torch.is_grad_enabled():
            self._handles.append(torch.Tensor.register_hook(tensor, partial(self._note_flow, number)))  # type: ignore[no-untyped-call]
        return number

    def _note_flow(self, number: int, gradient: torch.Tensor | None) -> None:
        if gradient is not None and self._values < _MOST_VALUES:
            self.lines.append({"kind": "flow", "of": number, "value": self._add(gradient)})

    def _add(self, tensor: torch.Tensor) -> int:
        self.lines.append({"kind": "value", **measure(tensor)})
        self._values += 1
        return self._values - 1

    def _note(self, kind: str, name: str, tensor: torch.Tensor) -> None:
        value = self._add(tensor)
        self.lines.append({"kind": kind, "name": name, "value": value})

    def _random(self) -> int:
        states = torch.cat([state().cpu().to(torch.int64) for state in self._random_states])
        if len(self._places) != len(states):
            self._places = torch.arange(1, len(states) + 1)
        return int(torch.dot(states, self._places)) & 0xFFFFFFFF

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
        if id(optimizer) in self._stepped:
            return
        self._stepped.add(id(optimizer))
        scale = getattr(optimizer, "grad_scale", None)  # of a fused optimizer, which unscales by itself
        for name, parameter in self._parameters(optimizer):
            if parameter.grad is not None:
                self._note("gradient", name, parameter.grad if scale is None else parameter.grad / scale)

    def _parameters(self, optimizer: Any) -> Iterator[tuple[str, torch.Tensor]]:
        for parameter in (each for group in getattr(optimizer, "param_groups", ()) for each in group["params"]):
            if id(parameter) in self._names:
                yield self._names[id(parameter)], parameter


def _called_modules(root: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module]]:
    """Yield each module that Python calls: nothing inside a compiled one, and no module of TorchScript."""
    seen: set[torch.nn.Module] = set()
    waiting = [("", root)]
    while waiting:
        path, module = waiting.pop()
        if module in seen or isinstance(module, torch.jit.ScriptModule):
            continue
        seen.add(module)
        yield _clean(path), module
        if not hasattr(module, "_orig_mod") and getattr(module, "_compiled_call_impl", None) is None:
            waiting += [(f"{path}.{name}".lstrip("."), child) for name, child in module.named_children()]


def _traces() -> bool:
    """Return True where tensors have no numbers: in ``torch.compile``, and in ``torch.vmap`` and its relatives."""
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def _recomputes() -> bool:
    """Return True inside a backward pass, where checkpointed modules are called again."""
    return bool(torch._C._current_graph_task_id() != -1)


def _clean(path: str) -> str:
    return ".".join(each for each in path.split(".") if each not in _WRAPPERS)


def _drops(module: torch.nn.Module) -> bool:
    """Return True if the module itself may drop values: by its class, a rate of its own, or a child for a function."""
    kind: Any = torch.nn.modules.dropout._DropoutNd
    rates = [each for name, each in vars(module).items() if "drop" in name.lower() and isinstance(each, float)]
    parts: list[Any] = [module, *module.children()]
    rates += [each.p for each in parts if isinstance(each, kind)]
    return max(rates, default=0.0) > 0


def unwrap(module: torch.nn.Module) -> torch.nn.Module:
    """Return the module in a wrapper that adds no parameter: a Fabric's, or DistributedDataParallel."""
    inner = getattr(module, "module", None)
    while isinstance(inner, torch.nn.Module) and {*inner.parameters()} == {*module.parameters()}:
        module, inner = inner, getattr(inner, "module", None)
    return module
