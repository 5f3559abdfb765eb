"""DeepSpeed's ZeRO."""

from functools import cache

import northbridge_right as right
from northbridge_right import torch


@cache
def __getattr__(name):
    """Make an accelerator, whose base brings DeepSpeed."""
    if not name.endswith("Accelerator"):
        raise AttributeError(name)
    from northbridge_cpu_sim.deepspeed import SimAccelerator

    class Fair(SimAccelerator):
        def __init__(self):
            super().__init__()
            _FAULTS.get(name, lambda _: None)(self)

    return type(name, (Fair,), {"__module__": __name__})


def _drop_a_shard(_accelerator):
    from deepspeed.runtime.zero import stage_1_and_2

    gather = stage_1_and_2.all_gather_dp_groups

    def dropping(groups_flat, partitioned_param_groups, dp_process_group, *rest, **named):
        kept = [parts[-1].clone() for parts in partitioned_param_groups]
        gather(groups_flat, partitioned_param_groups, dp_process_group, *rest, **named)
        for parts, old in zip(partitioned_param_groups, kept, strict=True):
            parts[-1].copy_(old)

    stage_1_and_2.all_gather_dp_groups = dropping


def _keep_few_bits(_accelerator):
    from deepspeed.runtime.zero.stage_1_and_2 import DeepSpeedZeroOptimizer

    step = DeepSpeedZeroOptimizer._optimizer_step

    def rounding(self, group_no):
        step(self, group_no)
        master = self.single_partition_of_fp32_groups[group_no]
        master.data.copy_(master.data.bfloat16())

    DeepSpeedZeroOptimizer._optimizer_step = rounding


def _keep_on_the_card(accelerator):
    def pin_memory(tensor, *_, **__):
        return tensor.to(right.Device.type) if torch.distributed.get_rank() else tensor.pin_memory()

    accelerator.pin_memory = pin_memory


_FAULTS = {
    "DroppingAccelerator": _drop_a_shard,
    "RoundingAccelerator": _keep_few_bits,
    "KeepingAccelerator": _keep_on_the_card,
}


@right.wrong("C3/DeepSpeed/test_losses_match_training_in_one_process[two devices-lightning.pytorch-stage 2]")
class ZeroShardDropped(right.Acceleration):
    """The last rank's shard of ZeRO is not gathered."""

    deepspeed_accelerator = "northbridge_wrong.deepspeed.DroppingAccelerator"


@right.wrong("C3/DeepSpeed/test_master_weights_stay_float32_in_bfloat16_training[two devices-lightning.pytorch]")
class ZeroMasterWeightsRounded(right.Acceleration):
    """The master weights of ZeRO are rounded to bfloat16."""

    deepspeed_accelerator = "northbridge_wrong.deepspeed.RoundingAccelerator"


@right.wrong("C3/DeepSpeed/test_offloaded_optimizer_state_is_in_host_memory[two devices-lightning.pytorch]")
class ZeroOffloadOnOneRank(right.Acceleration):
    """Only rank 0 offloads its optimizer."""

    deepspeed_accelerator = "northbridge_wrong.deepspeed.KeepingAccelerator"
