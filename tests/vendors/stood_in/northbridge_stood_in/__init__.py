from pathlib import Path

import northbridge


class Device(northbridge.Device):
    type = "stood_in"


class Collective(northbridge.Collective):
    name = "sccl"


class Bridge(northbridge.Bridge):
    def load(self) -> None:
        import torch_stood_in

    def detect(self) -> int:
        import torch_stood_in

        return torch_stood_in.CARDS


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return northbridge.Backend("stood_in", Device(), Collective(), Bridge())


@northbridge.hookimpl
def northbridge_simulation() -> northbridge.Simulation:
    stand_in = Path(__file__).with_name("torch_stood_in.py")
    return northbridge.Simulation({"torch_stood_in": stand_in}, found={"another_package": "STOOD_IN_FOUND"})
