// The random generators of the devices.
#pragma once

#include "device.h"

#include <ATen/core/Generator.h>

namespace chip {

at::Generator make_generator(c10::DeviceIndex index);

// The generator that operations on this device draw from where none is given.
const at::Generator& default_generator(c10::DeviceIndex index);

// The CPU generator inside a device's generator: what CPU kernels draw from.
const at::Generator& engine(const at::Generator& generator);

} // namespace chip
