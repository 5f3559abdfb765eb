"""rgpu, a device whose tensors live in a server, as a third party would bring it."""

import northbridge


class RgpuDevice(northbridge.Device):
    type = "rgpu"
    out_of_memory = ("out of memory", "can't allocate memory")  # a server on a GPU, and one on a CPU

    def label(self, index: int) -> str:  # noqa: ARG002 - the interface's
        return "rgpu: what its server computes on"

    def select(self, index: int) -> None:
        if index:  # rgpu raises a ValueError
            raise northbridge.DevicesError(f"rgpu:{index} is not there. Fix: use rgpu:0, the only one")


class RgpuBridge(northbridge.Bridge):
    package = "rgpu"

    def detect(self) -> int:
        return 0 if self.missing() else 1  # there is one, and only a tensor asks whether its server answers

    def load(self) -> None:
        import rgpu  # noqa: F401 - registers the device "rgpu"
        import torch

        torch.__future__.set_swap_module_params_on_conversion(True)  # its tensors are of a class of their own


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    replaced = northbridge.no("FSDP replaces a parameter's data, which rgpu's tensors cannot be")
    fused = northbridge.no("torch calls one fused kernel for it on every renamed device, and rgpu has none")
    claims = northbridge.Capabilities.of_level(
        "C2",
        random_numbers=northbridge.no("rgpu seeds its server, and cannot read a generator's state"),
        inference_mode=northbridge.no("rgpu fails under torch.inference_mode"),
        memory_stats=northbridge.no("rgpu counts no memory"),
        pinned_memory=northbridge.no("rgpu has no allocator for it"),
        device_checks=northbridge.no("rgpu sends the CPU's tensors to its server by itself"),
        sharding=replaced,
        fsdp=replaced,
        operators={
            **dict.fromkeys(("lstm", "lstm_cell", "gru", "gru_cell"), fused),
            "allclose": northbridge.no("rgpu reads no number of a tensor's metadata"),
            "quantile": northbridge.no("rgpu cannot squeeze a tensor in place"),
            "resize": northbridge.no("rgpu changes no tensor's shape in place"),
        },
    )
    collective = northbridge.HostCollective()  # rgpu has no library
    return northbridge.Backend("rgpu", RgpuDevice(), collective, RgpuBridge(), claims)
