// The number of devices, the current device, and the check that this process may use them.
#pragma once

#include "chip.h"

#include <cstdint>
#include <string>

namespace chip {

constexpr int kMaxDevices = 64;

struct Settings {
  int devices = 0;
  int64_t memory = 0; // bytes on each device
  std::string label; // the result of get_device_name
  bool one_per_process = false; // a process holds one card, with the index 0
  bool autograd_threads = false; // a backward runs on a thread of the device
  bool deferred_streams = false; // copies and collectives take effect when a thread waits for them
  bool ordered_streams = false; // a device does the work of all streams in the order of the calls
  bool nan_in_fresh_memory = false;
  bool trap_freed_memory = false;
  bool asynchronous_errors = false; // a device keeps its errors until a thread waits for it
  bool tf32_products = false; // products of float32 read the first 10 bits of a mantissa
  bool bfloat16_accumulation = false; // products of bfloat16 are added up in it
  bool other_order = false; // sums begin at their end
  bool flush_denormals = false; // of 16 bits, before and after a product
};

const Settings& settings() noexcept;
void configure(Settings settings);

inline c10::DeviceIndex device_count() noexcept {
  return static_cast<c10::DeviceIndex>(settings().devices);
}
// The number of devices that this process may touch.
c10::DeviceIndex reachable_count() noexcept;

// The user's name of the device type, for messages.
std::string type_name();

// The given index, or the current device's if negative. Raises for an index that does not exist.
c10::DeviceIndex checked_index(int64_t index);

// On some chips a process holds one card, always with the index 0. After this the chip is like
// them. An earlier touch counts as card 0, unless a function took another card. Raises if the
// process holds another card already.
void hold(int64_t card);
// True if an index exists, and is not out of reach because this process holds one card.
bool within_reach(int64_t index) noexcept;
// The card behind an index: the index, unless the process holds one card.
int64_t card(c10::DeviceIndex index) noexcept;

c10::DeviceIndex current_device() noexcept;
// Makes an existing index current, and returns the previous one.
c10::DeviceIndex exchange_device(c10::DeviceIndex index) noexcept;

class CurrentDevice {
 public:
  explicit CurrentDevice(c10::DeviceIndex index) : before_(exchange_device(index)) {}
  ~CurrentDevice() {
    exchange_device(before_);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  c10::DeviceIndex before_;
};

// Called before every touch of a device. It takes the process's card if a function does that, marks
// the chip as used by the process, and prepares the calling thread. It raises in a child that was
// forked after the chip was used.
void use();
bool in_use() noexcept;
bool in_bad_fork() noexcept;
// Only the latter, for calls before a touch: raises in such a child.
void refuse_bad_fork();

} // namespace chip
