// Device memory: host memory, charged to a device while a block of it lives.
#pragma once

#include "device/device.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Storage.h>
#include <c10/core/Stream.h>

namespace chip {

using Statistics = c10::CachingDeviceAllocator::DeviceStats;

// Raises OutOfMemoryError, with unchanged statistics, if the device has too little left.
void charge(c10::DeviceIndex index, size_t bytes);
void discharge(c10::DeviceIndex index, size_t bytes) noexcept;

Statistics statistics(c10::DeviceIndex index);
void reset_accumulated_statistics(c10::DeviceIndex index);
void reset_peak_statistics(c10::DeviceIndex index);

c10::DeviceAllocator* allocator();

// Tells the allocator that another stream uses this memory, so that it is not freed too early.
void record_use(const c10::DataPtr& data, const c10::Stream& stream);

// Makes the memory of a CPU storage the device's, without a copy. Raises OutOfMemoryError.
c10::Storage adopt(c10::Storage host, c10::DeviceIndex index);

// The CPU storage over the same memory as a device storage.
c10::Storage host_storage(const c10::Storage& device);

// The same, but it keeps the device storage, and so its charge, while it lives, and the memory even
// if the device storage is resized meanwhile.
c10::Storage owning_host_storage(const c10::Storage& device);

// Points a device storage at its host storage after a CPU kernel, which may have resized it. Raises
// OutOfMemoryError if the device has too little left, or a planned fault, after undoing the resize.
void follow_host(const c10::Storage& device, const c10::Storage& host);

} // namespace chip
