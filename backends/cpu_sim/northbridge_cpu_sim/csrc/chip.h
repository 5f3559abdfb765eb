// The device type of the simulated chip. A simulation of a device with its own dispatch key
// compiles these sources with other definitions.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/macros/Macros.h>

#ifdef CHIP_KEY
#define CHIP_HAS_OWN_KEY
#else
#define CHIP_KEY PrivateUse1
#define CHIP_REGISTER_DISPATCH REGISTER_PRIVATEUSE1_DISPATCH
#endif
// CHIP_REGISTER_DISPATCH is torch's macro for the key, and undefined if its kernel tables lack the key.
#define CHIP_SPARSE_KEY C10_CONCATENATE(Sparse, CHIP_KEY)
#define CHIP_AUTOGRAD_KEY C10_CONCATENATE(Autograd, CHIP_KEY)
#define CHIP_AUTOCAST_KEY C10_CONCATENATE(Autocast, CHIP_KEY)

namespace chip {

constexpr c10::DeviceType kDeviceType = c10::DeviceType::CHIP_KEY;
constexpr c10::DispatchKey kKey = c10::DispatchKey::CHIP_KEY;
constexpr c10::DispatchKey kSparseKey = c10::DispatchKey::CHIP_SPARSE_KEY;

} // namespace chip
