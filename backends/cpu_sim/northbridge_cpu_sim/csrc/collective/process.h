// The process of a rank, and its state.
#pragma once

#include <cstdint>
#include <string>

namespace chip {

struct ProcessId {
  std::string machine; // boot and pid namespace: it differs if the process cannot be examined
  std::string host; // its name, for messages
  int pid = 0;
  uint64_t started = 0; // so that a reused pid is detected
};

enum class Fate { running, stopped, gone };

ProcessId this_process();
// For a process of this machine.
Fate fate_of(const ProcessId& process);

} // namespace chip
