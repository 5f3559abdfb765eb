// The collectives of a group that have not taken effect, if streams are deferred, and the memory
// that each uses. The library does its calls in order, so that each reads the results of those
// before it, awaited or not.
#pragma once

#include "collective/collective_call.h"
#include "streams/streams.h"

#include <mutex>
#include <vector>

namespace chip {

class PendingCalls {
 public:
  void add(const Call& call, const Place& place);
  // Makes those take effect that write memory of the call, or use memory that it writes.
  void reach_before(const Call& call);

 private:
  struct Range {
    const char* begin;
    const char* end;
  };
  struct Memory {
    std::vector<Range> read;
    std::vector<Range> written;
  };
  struct Pending {
    Memory memory;
    Place place;
  };
  static Memory memory_of(const Call& call);
  static bool overlap(const std::vector<Range>& some, const std::vector<Range>& others);

  std::mutex mutex_;
  std::vector<Pending> pending_;
};

} // namespace chip
