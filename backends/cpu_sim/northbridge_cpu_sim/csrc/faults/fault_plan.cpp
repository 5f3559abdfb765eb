#include "faults/fault_plan.h"

#include <c10/util/Exception.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <mutex>

namespace chip {

std::atomic<bool> any_fault_planned{false};

namespace {

constexpr size_t kRemembered = 10000;

// Never destroyed: threads of torch outlive main().
auto* const plan_mutex = new std::mutex;
auto* const plan = new std::vector<FaultPtr>;
auto* const happened = new std::deque<MetFault>;

// The check without Python's rank and step.
bool may_meet(const Fault& fault, const Event& event, bool results) {
  if ((fault.kind == "corrupt") != results || (fault.times && fault.met >= *fault.times)) {
    return false;
  }
  if (event.place == Event::Place::allocation) {
    return fault.kind == "oom" && fault.operation.empty() &&
        (!fault.device || *fault.device == event.device);
  }
  if (fault.operation.empty() ? fault.kind == "oom" : fault.operation != event.name) {
    return false;
  }
  if (fault.kind == "lose" && event.device < 0) {
    return false;
  }
  return !fault.device || *fault.device == event.device;
}

uint64_t mixed(uint64_t x) { // splitmix64
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// The draw for one event, in [0, 1): it does not depend on other events.
double draw(const Fault& fault, int64_t rank) {
  auto state = mixed(static_cast<uint64_t>(fault.seed));
  for (const auto part : {rank, fault.position, fault.fitting}) {
    state = mixed(state ^ static_cast<uint64_t>(part));
  }
  return static_cast<double>(state >> 11) * 0x1p-53;
}

// Counts the event. True if the event meets the fault. The mutex is held.
bool meets(Fault& fault, const Event& event, FaultPlace here) {
  const auto in_group = event.place == Event::Place::collective;
  if ((fault.rank && *fault.rank != here.rank) ||
      (fault.step && *fault.step != here.step - fault.first_step) ||
      (fault.sequence && in_group && *fault.sequence != event.sequence)) {
    return false;
  }
  ++fault.fitting;
  if ((fault.sequence && !in_group && *fault.sequence != fault.fitting) ||
      fault.fitting <= fault.after || (fault.times && fault.met >= *fault.times) ||
      (fault.probability && draw(fault, here.rank) >= *fault.probability)) {
    return false;
  }
  ++fault.met;
  return true;
}

void tell(const Fault& fault, const MetFault& met) {
  auto line = c10::str("northbridge: planned fault: ", fault.kind, ", at step ", met.step);
  line += c10::str(", in ", met.name);
  if (met.sequence > 0) {
    line += c10::str(" (call ", met.sequence, " of its group)");
  }
  line += c10::str(", rank ", met.rank, " (", fault.text, ")\n");
  // Without Python and buffers: the process may end before either is flushed.
  for (size_t written = 0; written < line.size();) {
    const auto more = ::write(STDERR_FILENO, line.data() + written, line.size() - written);
    if (more < 0 && errno != EINTR) {
      return; // the message cannot be written
    }
    written += static_cast<size_t>(std::max<ssize_t>(more, 0));
  }
}

} // namespace

void plan_faults(std::vector<FaultPtr> faults) {
  const std::lock_guard<std::mutex> lock(*plan_mutex);
  any_fault_planned = !faults.empty();
  plan->swap(faults);
}

std::vector<MetFault> faults_met() {
  const std::lock_guard<std::mutex> lock(*plan_mutex);
  return {happened->begin(), happened->end()};
}

std::vector<FaultPtr> meet(const Event& event, bool results) {
  std::vector<FaultPtr> possible;
  {
    const std::lock_guard<std::mutex> lock(*plan_mutex);
    std::copy_if(
        plan->begin(), plan->end(), std::back_inserter(possible), [&](const FaultPtr& fault) {
          return may_meet(*fault, event, results);
        });
  }
  if (possible.empty()) {
    return {};
  }
  const auto here = fault_place(); // it takes the GIL, so not under the mutex
  std::vector<FaultPtr> met;
  const std::lock_guard<std::mutex> lock(*plan_mutex);
  for (const auto& fault : possible) {
    if (!meets(*fault, event, here)) {
      continue;
    }
    if (fault->kind == "lose") {
      fault->lost = event.device;
    }
    happened->push_back(
        {fault->id,
         here.rank,
         here.step - fault->first_step,
         std::string(event.name),
         event.device,
         event.sequence});
    if (happened->size() > kRemembered) {
      happened->pop_front();
    }
    tell(*fault, happened->back());
    met.push_back(fault);
  }
  return met;
}

FaultPtr loss_of(c10::DeviceIndex device) {
  const std::lock_guard<std::mutex> lock(*plan_mutex);
  for (const auto& fault : *plan) {
    if (device >= 0 && fault->lost == device) {
      return fault;
    }
  }
  return nullptr;
}

} // namespace chip
