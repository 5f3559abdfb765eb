#include "collective/pending_calls.h"

#include <algorithm>

namespace chip {

void PendingCalls::add(const Call& call, const Place& place) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase_if(pending_, [](const Pending& earlier) { return is_reached(earlier.place); });
  pending_.push_back({memory_of(call), place});
}

void PendingCalls::reach_before(const Call& call) {
  if (!anything_is_pending()) {
    return;
  }
  const auto mine = memory_of(call);
  std::vector<Place> places;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [theirs, place] : pending_) {
      if (overlap(theirs.written, mine.read) || overlap(theirs.written, mine.written) ||
          overlap(theirs.read, mine.written)) {
        places.push_back(place);
      }
    }
  }
  for (const auto& place : places) {
    reach(place);
  }
}

PendingCalls::Memory PendingCalls::memory_of(const Call& call) {
  const auto add_ranges = [](const Tensors& tensors, std::vector<Range>& to) {
    for (const auto& tensor : tensors) {
      if (tensor.layout() == at::kStrided && tensor.numel() > 0) {
        const auto* begin = static_cast<const char*>(tensor.const_data_ptr());
        to.push_back({begin, begin + tensor.nbytes()});
      }
    }
  };
  Memory memory;
  add_ranges(call.updated, memory.read);
  add_ranges(call.in, memory.read);
  add_ranges(call.out, memory.written);
  if (call.writes_here) {
    add_ranges(call.updated, memory.written);
  }
  return memory;
}

bool PendingCalls::overlap(const std::vector<Range>& some, const std::vector<Range>& others) {
  return std::any_of(some.begin(), some.end(), [&others](const Range& one) {
    return std::any_of(others.begin(), others.end(), [&one](const Range& other) {
      return one.begin < other.end && other.begin < one.end;
    });
  });
}

} // namespace chip
