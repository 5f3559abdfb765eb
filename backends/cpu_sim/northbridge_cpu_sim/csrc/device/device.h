// How many devices there are, which one is current, and whether this process may use them.
#pragma once

#include "chip.h"

#include <cstdint>
#include <string>

namespace chip {

constexpr int kMaxDevices = 64;

struct Settings {
  int devices = 0;
  int64_t memory = 0; // bytes on each device
  std::string label; // what get_device_name answers
  bool one_per_process = false; // a process holds one card, and calls it 0
  bool autograd_threads = false; // a backward runs on a thread of the device
  bool deferred_streams = false; // copies and collectives take effect when they are waited for
  bool nan_in_fresh_memory = false;
  bool trap_freed_memory = false;
  bool asynchronous_errors = false; // a device keeps its errors until somebody waits for it
};

const Settings& settings() noexcept;
void configure(Settings settings);

inline c10::DeviceIndex device_count() noexcept {
  return static_cast<c10::DeviceIndex>(settings().devices);
}
// How many of them this process may touch.
c10::DeviceIndex reachable_count() noexcept;

// The name the user knows the device type by, for messages.
std::string type_name();

// The given index, or the current device's where it is negative; raises on one that is not there.
c10::DeviceIndex checked_index(int64_t index);

// Some chips give a process one card, which the process calls 0 wherever the card is. After this
// the chip is such a one. What the process has touched before counts as card 0, unless there is a
// function that took another: raises where the process has another card already.
void hold(int64_t card);
// Whether an index is there and not out of this process's reach because it holds one card.
bool within_reach(int64_t index) noexcept;
// The card behind an index: the index, unless the process holds one card.
int64_t card(c10::DeviceIndex index) noexcept;

c10::DeviceIndex current_device() noexcept;
// Makes an index current that is known to be there, and gives the one before.
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

// Everything that touches a device calls this first: it takes the process's card where a function
// does that, marks the chip as used by the process, prepares the calling thread, and raises in a
// child that was forked after the chip was used.
void use();
bool in_use() noexcept;
bool in_bad_fork() noexcept;
// The latter alone, for what is not yet a touch: raises in such a child.
void refuse_bad_fork();

} // namespace chip
