// The plan of faults: what was asked for, how often each has been met, and what has happened.
#pragma once

#include <c10/core/Device.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace chip {

// One fault as it was planned. Where a filter is absent, everything fits it.
struct Fault {
  std::string kind; // kill, hang, slow, raise, oom, corrupt or lose
  std::string text; // how messages call it
  int64_t id = 0; // what it is for Python
  int64_t position = 0; // in its plan
  int64_t first_step = 0; // the step at which it was planned: its own are counted from there
  std::optional<int64_t> rank;
  std::optional<int64_t> step;
  std::optional<int64_t> device;
  std::string operation; // "aten::mm", "synchronize" or a call of the collective library
  std::optional<int64_t> sequence;
  int64_t after = 0; // so many are let pass
  std::optional<int64_t> times; // or every time
  std::optional<double> probability;
  int64_t seed = 0;
  double seconds = 0;
  std::string message;
  std::optional<double> value;
  std::optional<int64_t> bit;
  int64_t element = 0;

  // Changed under the plan's mutex.
  int64_t fitting = 0; // events that all its filters let through
  int64_t met = 0;
  c10::DeviceIndex lost = -1;
};
using FaultPtr = std::shared_ptr<Fault>;

// Something that reaches the chip.
struct Event {
  enum class Place : uint8_t { operation, allocation, collective };
  Place place = Place::operation;
  std::string_view name;
  c10::DeviceIndex device = -1; // or -1, where it has none
  int64_t sequence = 0; // of a collective: the number of the call in its group, from 1
};

// Which rank this process is, and how many steps it has taken: Python knows, by the function that is
// bound as `set_fault_place`.
struct FaultPlace {
  int64_t rank = 0;
  int64_t step = 0;
};
FaultPlace fault_place();

struct MetFault {
  int64_t id;
  int64_t rank;
  int64_t step;
  std::string name;
  c10::DeviceIndex device;
  int64_t sequence;
};

// Puts a plan in the place of the one before; what it has counted stays with a fault.
void plan_faults(std::vector<FaultPtr> faults);

// The last ones of this process, oldest first.
std::vector<MetFault> faults_met();

extern std::atomic<bool> any_fault_planned;
inline bool faults_are_planned() noexcept {
  return C10_UNLIKELY(any_fault_planned.load(std::memory_order_relaxed));
}

// Those that the event meets, in the order of the plan, each written to the log and recorded.
// Those that corrupt are met by results, and all others before an event begins.
std::vector<FaultPtr> meet(const Event& event, bool results);

// The fault by which a device was lost, or null.
FaultPtr loss_of(c10::DeviceIndex device);

} // namespace chip
