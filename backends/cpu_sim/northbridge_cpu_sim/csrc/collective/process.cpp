#include "collective/process.h"

#include <unistd.h>

#include <climits>
#include <fstream>
#include <optional>
#include <sstream>

namespace chip {
namespace {

struct ProcStat {
  char state = 'X';
  uint64_t flags = 0;
  uint64_t started = 0;
};

// The kernel's PF_EXITING, in proc(5)'s flags: set before an ending process closes its connections,
// which the other ranks notice; its state is still R or S for a while.
constexpr uint64_t kExiting = 0x4;

// proc(5): the name, in parentheses, may contain anything; the state comes after it.
std::optional<ProcStat> read_stat(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) {
    return std::nullopt;
  }
  std::istringstream rest(line.substr(line.rfind(')') + 1));
  ProcStat stat;
  std::string skipped;
  rest >> stat.state; // field 3; the flags are field 9, the start is field 22
  for (int field = 4; field < 9; ++field) {
    rest >> skipped;
  }
  rest >> stat.flags;
  for (int field = 10; field < 22; ++field) {
    rest >> skipped;
  }
  rest >> stat.started;
  return stat;
}

std::string read_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string pid_namespace() {
  char name[PATH_MAX];
  const auto length = readlink("/proc/self/ns/pid", name, sizeof(name));
  return length > 0 ? std::string(name, static_cast<size_t>(length)) : std::string();
}

} // namespace

ProcessId this_process() {
  char host[HOST_NAME_MAX + 1] = {};
  gethostname(host, sizeof(host) - 1);
  const auto stat = read_stat(getpid());
  return {
      read_line("/proc/sys/kernel/random/boot_id") + pid_namespace(),
      host,
      getpid(),
      stat ? stat->started : 0};
}

Fate fate_of(const ProcessId& process) {
  const auto stat = read_stat(process.pid);
  if (!stat || stat->started != process.started || (stat->flags & kExiting) != 0) {
    return Fate::gone;
  }
  switch (stat->state) {
    case 'Z':
    case 'X':
    case 'x':
      return Fate::gone;
    case 'T':
    case 't':
      return Fate::stopped;
    default:
      return Fate::running;
  }
}

} // namespace chip
