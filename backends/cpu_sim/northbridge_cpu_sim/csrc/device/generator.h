// The random generators of the devices.
#pragma once

#include "device/device.h"

#include <ATen/core/Generator.h>

namespace chip {

at::Generator make_generator(c10::DeviceIndex index);

// The generator of operations on this device that do not name one.
const at::Generator& default_generator(c10::DeviceIndex index);

// A CPU generator for the CPU kernels of one operation, which accept no other. It is made from the
// seed and the offset of the device's generator, which advances.
at::Generator engine(const at::Generator& generator);

} // namespace chip
