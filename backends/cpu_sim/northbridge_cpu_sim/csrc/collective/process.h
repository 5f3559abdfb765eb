// Which process a rank is, and how it fares.
#pragma once

#include <cstdint>
#include <string>

namespace chip {

struct ProcessId {
  std::string machine; // differs wherever the process cannot be looked at: boot and pid namespace
  std::string host; // its name, for people
  int pid = 0;
  uint64_t started = 0; // so that a pid that was given away again is told apart
};

enum class Fate { running, stopped, gone };

ProcessId this_process();
// Of a process of this machine.
Fate fate_of(const ProcessId& process);

} // namespace chip
