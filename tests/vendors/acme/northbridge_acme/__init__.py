import northbridge


class AcmeDevice(northbridge.Device):
    type = "acme"


class ACCL(northbridge.Collective):
    name = "accl"


class AcmeBridge(northbridge.Bridge):
    def load(self) -> None:
        import torch_acme  # registers the "acme" device and the "accl" process group


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return northbridge.Backend("acme", AcmeDevice(), ACCL(), AcmeBridge())
