"""Kelvin K1, a chip that nobody makes: a plugin that was written from Northbridge's documentation alone."""

import northbridge


class KelvinDevice(northbridge.Device):
    """Kelvin's device of torch, which is like torch.cuda."""

    type = "kelvin"


class KelvinCollective(northbridge.Collective):
    """Kelvin's communication library, which cannot multiply."""

    name = "kelvinccl"
    missing_reductions = {"product": "sum the logarithms"}


class KelvinBridge(northbridge.Bridge):
    """Kelvin's torch plugin."""

    package = "torch_kelvin"

    def check_environment(self) -> None:
        """Reject a wrong list of cards."""
        from northbridge_kelvin.settings import KelvinSettings

        KelvinSettings.read()

    def load(self) -> None:
        """Import it: torch knows the device and the process group afterwards."""
        import torch_kelvin  # noqa: F401


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    """Describe the chip."""
    return northbridge.Backend(
        "kelvin",
        KelvinDevice(),
        KelvinCollective(),
        KelvinBridge(),
        northbridge.Capabilities.of_level(
            "C3",
            bfloat16=northbridge.yes,
            float16=northbridge.no("its matrix unit has none"),
            float64=northbridge.no("its registers have 32 bits"),
            fork=northbridge.no("its driver does not survive a fork"),
            fsdp=northbridge.no("its storages cannot be emptied"),
            deepspeed=northbridge.no("DeepSpeed has no accelerator for it"),
        ),
    )
