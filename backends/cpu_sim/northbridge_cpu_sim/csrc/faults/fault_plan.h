// The plan of faults: its faults, their counts, and those that have happened.
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

// One planned fault. A missing filter fits everything.
struct Fault {
  std::string kind; // kill, hang, slow, raise, oom, corrupt or lose
  std::string text; // its name in messages
  int64_t id = 0; // its number in Python
  int64_t position = 0; // in its plan
  int64_t first_step = 0; // the step of the plan; the fault's steps are counted from it
  std::optional<int64_t> rank;
  std::optional<int64_t> step;
  std::optional<int64_t> device;
  std::string operation; // "aten::mm", "synchronize" or a call of the collective library
  std::optional<int64_t> sequence;
  int64_t after = 0; // number of events to skip
  std::optional<int64_t> times; // or always
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

// An event that reaches the chip.
struct Event {
  enum class Place : uint8_t { operation, allocation, collective };
  Place place = Place::operation;
  std::string_view name;
  c10::DeviceIndex device = -1; // or -1 without a device
  int64_t sequence = 0; // for a collective: the number of the call in its group, from 1
};

// The rank and the number of steps of this process: Python knows them, by the function that is
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

// Replaces the plan; a fault keeps its counts.
void plan_faults(std::vector<FaultPtr> faults);

// The last faults of this process, oldest first.
std::vector<MetFault> faults_met();

extern std::atomic<bool> any_fault_planned;
inline bool faults_are_planned() noexcept {
  return C10_UNLIKELY(any_fault_planned.load(std::memory_order_relaxed));
}

// The faults that the event meets, in the order of the plan, each logged and recorded. Results meet
// the faults that corrupt; events meet all others before they begin.
std::vector<FaultPtr> meet(const Event& event, bool results);

// The fault that lost a device, or null.
FaultPtr loss_of(c10::DeviceIndex device);

} // namespace chip
