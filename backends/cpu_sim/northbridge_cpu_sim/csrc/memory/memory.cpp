#include "memory/memory.h"

#include "faults/faults.h"
#include "memory/host_memory.h"
#include "streams/streams.h"

#include <ATen/native/Resize.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/StorageImpl.h>

#include <cstring>
#include <mutex>

namespace chip {
namespace {

using c10::DataPtr;
using c10::Storage;
using c10::StorageImpl;

// The object that a device's DataPtr owns. The host storage is the memory itself, and CPU kernels
// use it, so an alias that outlives the device tensor keeps the memory.
struct Block {
  Block(Storage host, size_t bytes, c10::DeviceIndex index)
      : host(std::move(host)), bytes(bytes), index(index) {
    known_to.push_back(current_stream(index).id());
  }
  Storage host;
  size_t bytes;
  c10::DeviceIndex index;
  Streams known_to; // its stream of allocation, and those that recorded it
};

std::mutex known_to_mutex; // for every block

void release(void* context) {
  auto* block = static_cast<Block*>(context);
  if (C10_UNLIKELY(in_bad_fork())) { // a thread that is not in the child may hold the locks
    delete block;
    return;
  }
  if (C10_UNLIKELY(anything_is_pending())) {
    forsake(block->host.data(), block->index, block->known_to);
  }
  discharge(block->index, block->bytes);
  delete block;
}

c10::Device device_of(c10::DeviceIndex index) {
  return {kDeviceType, index};
}

Storage make_storage(size_t bytes, DataPtr data, c10::Allocator* by) {
  return Storage(
      c10::make_intrusive<StorageImpl>(
          StorageImpl::use_byte_size_t(), bytes, std::move(data), by, /*resizable=*/true));
}

// The CPU allocator allocates for CPU kernels, without traps.
Storage moved_to_trapped_memory(const Storage& host) {
  const auto bytes = host.nbytes();
  auto moved = make_storage(bytes, take_host_memory(bytes), c10::GetCPUAllocator());
  std::memcpy(moved.mutable_data(), host.data(), bytes);
  return moved;
}

DataPtr own(Storage host, c10::DeviceIndex index) {
  void* data = host.mutable_data();
  const auto bytes = host.nbytes();
  if (data == nullptr) {
    return {nullptr, device_of(index)};
  }
  if (C10_UNLIKELY(freed_memory_is_trapped())) {
    host = moved_to_trapped_memory(host);
    data = host.mutable_data();
  }
  charge(index, bytes);
  return {data, new Block(std::move(host), bytes, index), &release, device_of(index)};
}

struct Allocator final : c10::DeviceAllocator {
  DataPtr allocate(size_t bytes) override {
    use();
    const auto index = current_device();
    if (bytes == 0) {
      return {nullptr, device_of(index)};
    }
    meet_faults_of_allocation(index);
    charge(index, bytes);
    try {
      auto host = make_storage(bytes, take_host_memory(bytes), c10::GetCPUAllocator());
      void* data = host.mutable_data();
      return {data, new Block(std::move(host), bytes, index), &release, device_of(index)};
    } catch (...) {
      discharge(index, bytes);
      throw;
    }
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return nullptr; // a block is more than its address
  }
  void copy_data(void* destination, const void* source, std::size_t bytes) const override {
    default_copy_data(destination, source, bytes);
  }
  bool initialized() override {
    return in_use();
  }
  void emptyCache(c10::MempoolId_t) override {} // nothing is cached
  void recordStream(const DataPtr& data, c10::Stream stream) override {
    record_use(data, stream);
  }
  Statistics getDeviceStats(c10::DeviceIndex index) override {
    return statistics(index);
  }
  void resetAccumulatedStats(c10::DeviceIndex index) override {
    reset_accumulated_statistics(index);
  }
  void resetPeakStats(c10::DeviceIndex index) override {
    reset_peak_statistics(index);
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
    constexpr auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    const auto in_use = statistics(index).allocated_bytes[all].current;
    return {settings().memory - in_use, settings().memory};
  }
};

Allocator the_allocator;
REGISTER_ALLOCATOR(kDeviceType, &the_allocator);

} // namespace

c10::DeviceAllocator* allocator() {
  return &the_allocator;
}

void record_use(const DataPtr& data, const c10::Stream& stream) {
  if (data.get_deleter() == &release) {
    const std::lock_guard<std::mutex> lock(known_to_mutex);
    static_cast<Block*>(data.get_context())->known_to.push_back(stream.id());
  }
}

Storage adopt(Storage host, c10::DeviceIndex index) {
  const auto bytes = host.nbytes();
  meet_faults_of_allocation(index);
  return make_storage(bytes, own(std::move(host), index), &the_allocator);
}

Storage host_storage(const Storage& device) {
  const auto& data = device.data_ptr();
  if (C10_LIKELY(data.get_deleter() == &release)) {
    return static_cast<Block*>(data.get_context())->host;
  }
  return owning_host_storage(device); // empty, or memory from another allocator
}

Storage owning_host_storage(const Storage& device) {
  struct Owner {
    Storage device;
    Storage memory; // the device storage loses it when it is resized
  };
  const auto& of = device.data_ptr();
  auto* owner = new Owner{device, {}};
  if (of.get_deleter() == &release) {
    owner->memory = static_cast<Block*>(of.get_context())->host;
  }
  DataPtr data(
      owner->device.mutable_data(),
      owner,
      [](void* context) { delete static_cast<Owner*>(context); },
      c10::Device(c10::kCPU));
  return make_storage(device.nbytes(), std::move(data), c10::GetCPUAllocator());
}

void follow_host(const Storage& device, const Storage& host) {
  if (C10_LIKELY(device.data() == host.data() && device.nbytes() == host.nbytes())) {
    return;
  }
  auto* impl = device.unsafeGetStorageImpl();
  const auto index = device.device().index();
  const auto bytes = host.nbytes();
  // The old block no longer has its own memory, so its charge ends before the new one begins.
  const auto before = device.nbytes();
  impl->set_data_ptr_noswap({nullptr, device_of(index)});
  impl->set_nbytes(0);
  try {
    meet_faults_of_allocation(index);
    impl->set_data_ptr_noswap(own(host, index));
    impl->set_nbytes(bytes);
  } catch (...) {
    at::native::resize_bytes_cpu(host.unsafeGetStorageImpl(), before);
    impl->set_data_ptr_noswap(own(host, index));
    impl->set_nbytes(before);
    throw;
  }
}

} // namespace chip
