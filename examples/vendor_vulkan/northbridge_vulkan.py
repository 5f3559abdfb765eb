"""torchvulkan, which computes on any card with a Vulkan 1.3 driver, as a third party would bring it."""

import ctypes

import northbridge


class VulkanDevice(northbridge.Device):
    type = "vulkan"


class VulkanBridge(northbridge.Bridge):
    package = "torchvulkan"

    def detect(self) -> int:
        """Ask Vulkan's loader, which takes milliseconds; torchvulkan takes seconds, and needs a driver to answer."""
        return 0 if self.missing() else count_devices()

    def load(self) -> None:
        import torchvulkan  # noqa: F401 - registers the device "vulkan"


class InstanceCreateInfo(ctypes.Structure):
    """VkInstanceCreateInfo: of an instance with no layer and no extension all is 0 but its type, which is 1."""

    _fields_ = (("type", ctypes.c_int), ("next", ctypes.c_void_p), ("rest", ctypes.c_uint64 * 6))


def count_devices() -> int:
    """Return the number of devices that Vulkan's drivers on this machine have; 0 where no driver is installed."""
    try:
        vulkan = ctypes.CDLL("libvulkan.so.1")
    except OSError:
        return 0
    instance, count = ctypes.c_void_p(), ctypes.c_uint32()
    if vulkan.vkCreateInstance(ctypes.byref(InstanceCreateInfo(type=1)), None, ctypes.byref(instance)):
        return 0
    try:
        return 0 if vulkan.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), None) else count.value
    finally:
        vulkan.vkDestroyInstance(instance, None)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    fused = northbridge.no("torch calls one fused kernel for it on every renamed device, and torchvulkan has none")
    arctangent = northbridge.Within(3e-4, "Vulkan computes it by atan2, which may be 4096 ULP off")
    claims = northbridge.Capabilities.of_level(
        "C2",
        operators={
            **dict.fromkeys(("lstm", "lstm_cell", "gru", "gru_cell"), fused),
            **dict.fromkeys(("asin", "acos"), arctangent),
        },
        device_checks=northbridge.no("torchvulkan copies the CPU's tensors to the card by itself"),
        pinned_memory=northbridge.no("torchvulkan pins no memory"),
        sharding=northbridge.no("torchvulkan has no streams, which FSDP2 needs"),
        fsdp=northbridge.no("torchvulkan moves an emptied storage to the CPU"),
    )
    collective = northbridge.HostCollective()  # torchvulkan has no library
    return northbridge.Backend("vulkan", VulkanDevice(), collective, VulkanBridge(), claims)
