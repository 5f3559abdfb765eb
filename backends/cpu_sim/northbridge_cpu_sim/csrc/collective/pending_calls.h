// The collectives of a group that are still to take effect, where streams are deferred, and the
// memory that each uses. The library does its calls in turn, so that one finds what those before it
// leave, whether or not somebody has waited for them.
#pragma once

#include "collective/collective_call.h"
#include "streams/streams.h"

#include <mutex>
#include <vector>

namespace chip {

class PendingCalls {
 public:
  void add(const Call& call, const Place& place);
  // Lets those take effect that write what the call uses, or use what it writes.
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
