#include "collective/roster.h"

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <sstream>
#include <system_error>
#include <thread>

namespace chip {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

std::string key_of(int rank) {
  return "board/" + std::to_string(rank);
}

// True if rank 0 of the job keeps the store. Then it exists if the store does, though a user's
// store may let it wait for all ranks before it announces itself.
bool rank_0_keeps(const StorePtr& store) {
  auto below = store;
  while (auto* prefix = dynamic_cast<c10d::PrefixStore*>(below.get())) {
    below = prefix->getUnderlyingStore();
  }
  const char* agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  const bool is_agents = agent != nullptr && std::string(agent) == "True";
  return !is_agents && dynamic_cast<c10d::TCPStore*>(below.get()) != nullptr;
}

[[noreturn]] void refuse(
    const GroupFacts& group,
    const StorePtr& store,
    std::vector<int> absent,
    const std::string& why) {
  if (group.global_ranks.empty() && absent.size() > 1 && absent[0] == 0 && rank_0_keeps(store)) {
    absent.erase(absent.begin());
  }
  std::vector<int64_t> global;
  for (const auto rank : absent) {
    global.push_back(group.global(rank));
  }
  const bool one = global.size() == 1;
  C10_THROW_ERROR(
      DistBackendError,
      c10::str(
          group.library, "'s making of ", group.in_words(), " on ", group.here_in_words(),
          " failed: ", why, one ? " for rank " : " for ranks ",
          c10::Join(", ", global),
          ", which did not join: ",
          one ? "it never started, has ended, or is"
              : "they never started, have ended, or are",
          " elsewhere in the program"));
}

} // namespace

Roster::Roster(const GroupFacts& group, const StorePtr& store)
    : own_(std::make_shared<Board>()), members_(static_cast<size_t>(group.size)) {
  announce(group, store);
  wait_for_all(group, store);
  meet(group, store);
}

void Roster::announce(const GroupFacts& group, const StorePtr& store) const {
  const auto me = this_process();
  std::ostringstream card;
  card << me.machine << '\n'
       << me.host << '\n'
       << me.pid << ' ' << me.started << ' ' << own_->descriptor();
  store->set(key_of(group.rank), card.str());
}

void Roster::wait_for_all(const GroupFacts& group, const StorePtr& store) const {
  std::vector<int> absent(static_cast<size_t>(group.size));
  std::iota(absent.rbegin(), absent.rend(), 0);
  const auto is_here = [&store](int rank) { return store->check({key_of(rank)}); };
  const auto end = steady_clock::now() + group.timeout;
  constexpr milliseconds kLongest{50};
  for (milliseconds pause{1};; pause = std::min(2 * pause, kLongest)) {
    const bool is_late = steady_clock::now() >= end;
    try {
      // One question in each round: about every absent rank they would be size² in all, each time.
      while (!absent.empty() && is_here(absent.back())) {
        absent.pop_back();
      }
      if (is_late) {
        std::erase_if(absent, is_here); // to name them all
      }
    } catch (const std::exception& error) {
      const std::string reason = error.what();
      refuse(
          group,
          store,
          {absent.back()},
          c10::str(
              "the store was lost (", reason.substr(0, reason.find('\n')), ") while waiting"));
    }
    if (absent.empty()) {
      return;
    }
    if (is_late) {
      refuse(
          group,
          store,
          {absent.rbegin(), absent.rend()},
          c10::str("timed out after ", group.timeout.count(), " ms while waiting"));
    }
    std::this_thread::sleep_for(pause);
  }
}

void Roster::meet(const GroupFacts& group, const StorePtr& store) {
  const auto here = this_process().machine;
  std::vector<std::string> keys;
  for (int rank = 0; rank < group.size; ++rank) {
    keys.push_back(key_of(rank));
  }
  const auto cards = store->multiGet(keys);
  for (int rank = 0; rank < group.size; ++rank) {
    auto& member = members_[static_cast<size_t>(rank)];
    const auto& text = cards.at(static_cast<size_t>(rank));
    std::istringstream card(std::string(text.begin(), text.end()));
    std::getline(card, member.process.machine);
    std::getline(card, member.process.host);
    int descriptor = -1;
    card >> member.process.pid >> member.process.started >> descriptor;
    if (rank == group.rank) {
      member.board = own_;
    } else if (member.process.machine != here) {
      member.why_not = c10::str("it runs on ", member.process.host, ", out of sight from here");
    } else {
      try {
        member.board = std::make_shared<Board>(member.process.pid, descriptor);
      } catch (const std::system_error& error) {
        member.why_not = error.what();
      }
    }
  }
}

} // namespace chip
