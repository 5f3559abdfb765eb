#include "process.h"

#include <unistd.h>

#include <climits>
#include <fstream>
#include <optional>
#include <sstream>

namespace chip {
namespace {

struct Stat {
  char state = 'X';
  uint64_t started = 0;
};

// proc(5): the name, in parentheses, may hold anything; the state comes after it.
std::optional<Stat> read_stat(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) {
    return std::nullopt;
  }
  std::istringstream rest(line.substr(line.rfind(')') + 1));
  Stat stat;
  rest >> stat.state;
  constexpr int kBetween = 18; // fields 4 to 21; the start is the 22nd
  std::string skipped;
  for (int i = 0; i < kBetween; ++i) {
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
  if (!stat || stat->started != process.started) {
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
