"""The chips of torch-fl, which are one device of torch, "flagos"."""

import northbridge


class FlagOSDevice(northbridge.Device):
    type = "flagos"

    def label(self, index: int) -> str:  # torch.flagos has no get_device_name
        return str(self.module.get_device_properties(index).name)


class FlagOSGroup(northbridge.Collective):
    name = "flagos"


class FlagOSBridge(northbridge.Bridge):
    package = "torch_fl"

    def load(self) -> None:
        import torch_fl  # noqa: F401  # registers torch.flagos and the process group


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return northbridge.Backend("flagos", FlagOSDevice(), FlagOSGroup(), FlagOSBridge())
