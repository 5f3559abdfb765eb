#include "memory/memory.h"

#include <c10/util/Exception.h>

#include <array>
#include <cstdio>
#include <mutex>

namespace chip {
namespace {

using c10::CachingAllocator::Stat;

struct Account {
  std::mutex mutex;
  Stat bytes;
  Stat blocks;
  int64_t refused = 0;
};

std::array<Account, kMaxDevices> accounts;

std::string in_units(int64_t bytes) {
  constexpr std::array<const char*, 4> units{"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) {
    return c10::str(bytes, " bytes");
  }
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f %s", value, units[unit]);
  return text.data();
}

} // namespace

void charge(c10::DeviceIndex index, size_t bytes) {
  auto& account = accounts[index];
  std::lock_guard<std::mutex> lock(account.mutex);
  const auto size = settings().memory;
  const auto in_use = account.bytes.current;
  if (C10_UNLIKELY(static_cast<int64_t>(bytes) > size - in_use)) {
    ++account.refused;
    TORCH_CHECK_WITH(
        OutOfMemoryError,
        false,
        c10::Device(kDeviceType, index),
        " is out of memory: ",
        in_units(static_cast<int64_t>(bytes)),
        " were asked for, ",
        in_units(in_use),
        " of its ",
        in_units(size),
        " are in use. Fix: make the batch or the model smaller, or give the simulated chip "
        "more memory (NORTHBRIDGE_CPU_SIM_MEMORY)");
  }
  account.bytes.increase(bytes);
  account.blocks.increase(1);
}

void discharge(c10::DeviceIndex index, size_t bytes) noexcept {
  auto& account = accounts[index];
  std::lock_guard<std::mutex> lock(account.mutex);
  account.bytes.decrease(bytes);
  account.blocks.decrease(1);
}

Statistics statistics(c10::DeviceIndex index) {
  constexpr auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  auto& account = accounts[checked_index(index)];
  std::lock_guard<std::mutex> lock(account.mutex);
  Statistics s;
  // Nothing is cached: allocated, active, requested and reserved bytes are equal.
  s.allocated_bytes[all] = s.active_bytes[all] = account.bytes;
  s.requested_bytes[all] = s.reserved_bytes[all] = account.bytes;
  s.allocation[all] = s.active[all] = s.segment[all] = account.blocks;
  s.num_ooms = account.refused;
  s.num_device_alloc = account.blocks.allocated;
  s.num_device_free = account.blocks.freed;
  return s;
}

void reset_accumulated_statistics(c10::DeviceIndex index) {
  auto& account = accounts[checked_index(index)];
  std::lock_guard<std::mutex> lock(account.mutex);
  account.bytes.reset_accumulated();
  account.blocks.reset_accumulated();
  account.refused = 0;
}

void reset_peak_statistics(c10::DeviceIndex index) {
  auto& account = accounts[checked_index(index)];
  std::lock_guard<std::mutex> lock(account.mutex);
  account.bytes.reset_peak();
  account.blocks.reset_peak();
}

} // namespace chip
