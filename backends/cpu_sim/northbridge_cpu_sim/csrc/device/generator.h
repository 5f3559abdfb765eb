// The random generators of the devices.
#pragma once

#include "device/device.h"

#include <ATen/core/Generator.h>

namespace chip {

at::Generator make_generator(c10::DeviceIndex index);

// The generator that operations on this device draw from where none is given.
const at::Generator& default_generator(c10::DeviceIndex index);

// What the CPU kernels of one operation draw from, because they accept no other: a generator of the
// CPU, made from the seed and the offset of the device's generator, which moves on.
at::Generator engine(const at::Generator& generator);

} // namespace chip
