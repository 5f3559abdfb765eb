"""All that Northbridge changes of torch in a process.

Most of it happens when a backend is loaded. Vendors' software and the simulation of a chip change torch by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TorchChange:
    """A function, a setting or kernels of torch that Northbridge replaces."""

    changed: str
    """Its name in torch; of kernels, the operators."""

    place: str
    """The function that changes it, as ``module:function`` in this package."""

    reason: str
    condition: str
    undoing: str


TORCH_CHANGES = (
    TorchChange(
        "aten::_has_compatible_shallow_copy_type",
        "discovery.loaded:_keep_parameters_when_moved",
        "module.to() makes new parameters on a device of torch's spare type: tied weights come apart, and an optimizer"
        " made before trains nothing",
        "a loaded chip has torch's spare type, and the vendor has registered no kernel",
        "never: the kernel is asked about tensors of the spare type alone",
    ),
    TorchChange(
        "torch.nn.TransformerEncoder.forward",
        "discovery.nested_tensors:do_without_nested_tensors",
        "packs padded sequences into a nested tensor, which fails on the chip, or leaves other numbers in the padding",
        "a loaded chip has no kernels for nested tensors",
        "never: torch's own runs for every other device",
    ),
    TorchChange(
        "torch.optim.swa_utils.get_swa_multi_avg_fn",
        "discovery.averaged_buffers:average_integers_one_by_one",
        "averages integers in a call that raises an error for them on accelerators",
        "a backend is loaded",
        "never: torch's own averages all other tensors",
    ),
    TorchChange(
        "c10d::*",
        "flight_recorder.recording.recorder:observe",
        "the recorder has to see every call of torch.distributed, and those of DDP in C++",
        "NORTHBRIDGE_FLIGHT_RECORDER names a folder",
        "never: each kernel hands its call on to the one below",
    ),
    TorchChange(
        "torch.load",
        "lightning.plugins.load_and_save:ThreadOverride.use",
        "a vendor's replacement may run the code of a file, and a damaged file raises whatever it leads to",
        "a thread reads a checkpoint on a chip",
        "by the last thread that reads, unless another has replaced it meanwhile; other threads call the former one",
    ),
    TorchChange(
        "torch.save",
        "lightning.plugins.load_and_save:ThreadOverride.use",
        "a vendor's replacement writes a file that opens only with the vendor's software",
        "a thread writes a checkpoint, and a vendor has replaced torch.save",
        "by the last thread that writes, unless another has replaced it meanwhile; other threads call the former one",
    ),
    TorchChange(
        "torch.distributed.*.__defaults__",
        "lightning.strategies.user_classes:_forget",
        "functions that torch imports after Ray has begun a group have that group as a default",
        "a worker of Ray Train has a group over Gloo, which cannot send the chip's tensors",
        "never: the group is destroyed, and None means the default group",
    ),
    TorchChange(
        "torch.use_deterministic_algorithms",
        "lightning.strategies.deepspeed_accelerator:Determinism.apply",
        "importing an accelerator of DeepSpeed's may turn deterministic algorithms on for the whole process",
        "DeepSpeed is imported, or a strategy of DeepSpeed runs",
        "after the import, and by the strategy's teardown()",
    ),
    TorchChange(
        "torch.utils.deterministic.fill_uninitialized_memory",
        "lightning.strategies.deepspeed_accelerator:Determinism.apply",
        "an accelerator of DeepSpeed's sets it with the deterministic algorithms",
        "DeepSpeed is imported, or a strategy of DeepSpeed runs",
        "after the import, and by the strategy's teardown()",
    ),
)
"""Every change; no other code of the core changes torch."""
