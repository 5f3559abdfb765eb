"""Faults in what a vendor brings beyond operators: loaders of images, profilers, counts of graphs, DeepSpeed."""

import itertools
import json
import os
from functools import cache, wraps
from pathlib import Path

from northbridge_right import Device, torch, wrong


@wrong("C1/ImageLoaders/test_each_image_comes_once_per_epoch", "Acceleration.image_loader")
def pictures_repeat(image_loader, *given, **options):
    """A loader repeats a batch."""
    return Repeating(image_loader(*given, **options))


class Repeating:
    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        first, *others = self.loader
        return iter([first, first, *others[:-1]])


@wrong("C1/ImageLoaders/test_each_image_comes_once_per_epoch", "Acceleration.image_loader")
def labels_shifted(image_loader, *given, **options):
    """A loader gives a picture another's label."""
    return [(images, labels.roll(1)) for images, labels in image_loader(*given, **options)]


@wrong("C1/ImageLoaders/test_each_image_comes_once_per_epoch", "Acceleration.image_loader")
def second_epoch_empty(image_loader, *given, **options):
    """A loader has one epoch."""
    return iter(image_loader(*given, **options))


@wrong("C3/Profilers/test_trace_and_table_of_each_rank_have_device_time", "Acceleration.profiler_activity")
def profiler_drops_a_rank(profiler_activity, acceleration):
    """A profiler drops a rank."""
    return profiler_activity(acceleration) if os.environ.get("LOCAL_RANK", "0") == "0" else None


@wrong("C2/Profilers/test_trace_and_table_of_each_rank_have_device_time", "Acceleration.profiler_activity")
def profiler_records_the_host(*_):
    """A profiler records only the host."""
    return torch.profiler.ProfilerActivity.CPU


@wrong("C2/Profilers/test_trace_and_table_of_each_rank_have_device_time", "torch.profiler.profile.export_chrome_trace")
def profiler_measures_no_time(export, profile, path, *given, **named):
    """A profiler's events take no time."""
    export(profile, path, *given, **named)
    trace = json.loads(Path(path).read_text())
    for event in trace["traceEvents"]:
        if event.get("cat") == "kernel":
            event["dur"] = 0
    Path(path).write_text(json.dumps(trace))


@wrong("C1/Compilations/test_compile_count_grows_only_with_new_shapes", "Acceleration.compilations")
@cache
def counts_never_grow(compilations, acceleration):
    """The count of compiled graphs stays that of its first call."""
    return compilations(acceleration)


@wrong("C1/Compilations/test_compile_count_grows_only_with_new_shapes", "Acceleration.compilations")
def counts_reset(compilations, acceleration):
    """The count of compiled graphs begins anew at each call."""
    total = compilations(acceleration)["graphs"]
    since, acceleration.before = total - getattr(acceleration, "before", 0.0), total
    return {"graphs": since}


calls = itertools.count(1)


@wrong("C1/Compilations/test_compile_count_grows_only_with_new_shapes", "Acceleration.compilations")
def counts_each_step(compilations, acceleration):
    """A graph counts as compiled each time it runs."""
    return {"graphs": compilations(acceleration)["graphs"] + next(calls)}


DEEPSPEED = {}
"""What is done to DeepSpeed's accelerator of a backend, and with it to DeepSpeed."""


@cache
def __getattr__(name):
    """Return a subclass of the right accelerator of DeepSpeed, whose import brings DeepSpeed."""
    if name not in DEEPSPEED:
        raise AttributeError(name)
    from northbridge_cpu_sim.deepspeed import SimAccelerator

    def begin(accelerator):
        SimAccelerator.__init__(accelerator)
        DEEPSPEED[name](accelerator)

    return type(name, (SimAccelerator,), {"__init__": begin, "__module__": __name__})


def in_deepspeed(test):
    """Announce a backend that calls a function with its accelerator of DeepSpeed, and record the test."""

    def announced(spoil):
        accelerator = f"{spoil.__name__}_accelerator"
        DEEPSPEED[accelerator] = spoil
        named = wraps(spoil)(lambda *_: f"{__name__}.{accelerator}")
        wrong(test, "Acceleration.deepspeed_accelerator")(named)

    return announced


@in_deepspeed("C3/DeepSpeed/test_losses_match_training_in_one_process[two devices-lightning.pytorch-stage 2]")
def zero_shard_dropped(_):
    """The last rank's shard of ZeRO is not gathered."""
    from deepspeed.runtime.zero import stage_1_and_2

    gather = stage_1_and_2.all_gather_dp_groups

    def dropping(groups_flat, partitioned_param_groups, dp_process_group, *rest, **named):
        kept = [parts[-1].clone() for parts in partitioned_param_groups]
        gather(groups_flat, partitioned_param_groups, dp_process_group, *rest, **named)
        for parts, old in zip(partitioned_param_groups, kept, strict=True):
            parts[-1].copy_(old)

    stage_1_and_2.all_gather_dp_groups = dropping


@in_deepspeed("C3/DeepSpeed/test_master_weights_stay_float32_in_bfloat16_training[two devices-lightning.pytorch]")
def zero_master_weights_rounded(_):
    """The master weights of ZeRO are rounded to bfloat16."""
    from deepspeed.runtime.zero.stage_1_and_2 import DeepSpeedZeroOptimizer

    step = DeepSpeedZeroOptimizer._optimizer_step

    def rounding(optimizer, group_no):
        step(optimizer, group_no)
        master = optimizer.single_partition_of_fp32_groups[group_no]
        master.data.copy_(master.data.bfloat16())

    DeepSpeedZeroOptimizer._optimizer_step = rounding


@in_deepspeed("C3/DeepSpeed/test_offloaded_optimizer_state_is_in_host_memory[two devices-lightning.pytorch]")
def zero_offload_on_one_rank(accelerator):
    """Only rank 0 offloads its optimizer."""

    def pin_memory(tensor, *_, **__):
        return tensor.to(Device.type) if torch.distributed.get_rank() else tensor.pin_memory()

    accelerator.pin_memory = pin_memory
