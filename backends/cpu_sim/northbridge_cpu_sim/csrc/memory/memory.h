// The memory of the devices: host memory, charged to a device for as long as a block of it lives.
#pragma once

#include "device/device.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Storage.h>
#include <c10/core/Stream.h>

namespace chip {

using Statistics = c10::CachingDeviceAllocator::DeviceStats;

// Raises OutOfMemoryError, leaving the statistics as they were, where the device has too little
// left.
void charge(c10::DeviceIndex index, size_t bytes);
void discharge(c10::DeviceIndex index, size_t bytes) noexcept;

Statistics statistics(c10::DeviceIndex index);
void reset_accumulated_statistics(c10::DeviceIndex index);
void reset_peak_statistics(c10::DeviceIndex index);

c10::DeviceAllocator* allocator();

// Tells the allocator that a stream uses memory of another's, which must not be lost to it.
void record_use(const c10::DataPtr& data, const c10::Stream& stream);

// Makes the memory of a CPU storage the device's, without a copy; raises OutOfMemoryError.
c10::Storage adopt(c10::Storage host, c10::DeviceIndex index);

// The CPU storage over the same memory as a device storage.
c10::Storage host_storage(const c10::Storage& device);

// The same, but it keeps the device storage, and so its charge, for as long as it lives, and the
// memory even where the device storage is resized meanwhile.
c10::Storage owning_host_storage(const c10::Storage& device);

// Points a device storage at what a CPU kernel has made of its host storage (it may have resized
// it). Raises OutOfMemoryError where the device has too little left, or what was planned to go
// wrong, after undoing the resize.
void follow_host(const c10::Storage& device, const c10::Storage& host);

} // namespace chip
