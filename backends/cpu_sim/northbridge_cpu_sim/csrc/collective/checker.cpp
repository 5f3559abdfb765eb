#include "collective/checker.h"

#include <ATen/core/ivalue_inl.h>
#include <c10/util/Exception.h>
#include <c10/util/thread_name.h>

#include <unistd.h>

#include <algorithm>

namespace chip {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kGrace{1000};

class QueuedWork final : public c10d::Work {
 public:
  QueuedWork(int rank, c10d::OpType type)
      : Work(rank, type), future_(c10::make_intrusive<c10::ivalue::Future>(c10::NoneType::get())) {}

  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    return future_;
  }
  void end(std::exception_ptr error) {
    // The future first, as in Gloo: a thread that has waited for the work may read its value.
    if (error) {
      future_->setError(error);
    } else {
      future_->markCompleted(c10::IValue());
    }
    finish(error);
  }

 private:
  const c10::intrusive_ptr<c10::ivalue::Future> future_;
};

} // namespace

struct Checker::Item {
  std::shared_ptr<CallRecord> record;
  c10::intrusive_ptr<QueuedWork> work;
  std::function<void()> perform;
  milliseconds timeout;
};

Checker::Checker(std::shared_ptr<GroupState> group)
    : group_(std::move(group)), process_(getpid()), thread_([this] { loop(); }) {}

Checker::~Checker() {
  stop();
}

WorkPtr Checker::enqueue(
    std::shared_ptr<CallRecord> record, const Call& call, std::function<void()> perform) {
  auto work = c10::make_intrusive<QueuedWork>(group_->facts.rank, call.type);
  const auto timeout = group_->timeout_of(call);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    group_->check_is_up(!stopping_);
    queue_.push_back(std::unique_ptr<Item>(
        new Item{std::move(record), work, std::move(perform), timeout}));
  }
  changed_.notify_one();
  return work;
}

void Checker::stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!stopping_) {
      end_of_grace_ = steady_clock::now() + kGrace;
      stopping_ = true;
    }
  }
  changed_.notify_one();
  if (!thread_.joinable()) {
    return;
  }
  if (getpid() == process_) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void Checker::loop() {
  c10::setThreadName("simccl check");
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) {
      return;
    }
    auto item = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    carry_out(*item);
    item.reset(); // may need the GIL, whose holder may wait for the lock
    lock.lock();
  }
}

void Checker::carry_out(Item& item) {
  std::exception_ptr error;
  try {
    item.record->post();
    wait_for_all(item);
    item.perform();
    item.perform = nullptr;
  } catch (...) {
    error = std::current_exception();
  }
  item.work->end(error);
}

void Checker::wait_for_all(const Item& item) {
  const auto& roster = group_->roster;
  const auto& mine = item.record->line();
  std::vector<int> awaited;
  for (int rank = 0; rank < group_->facts.size; ++rank) {
    if (rank != group_->facts.rank && roster.member(rank).board) {
      awaited.push_back(rank);
    }
  }
  const auto begin = steady_clock::now();
  auto end = begin + item.timeout;
  constexpr milliseconds kLook{20};
  auto next_look = begin + kLook;
  bool disagree = false;
  const auto has_called = [&](int rank) {
    const auto& board = *roster.member(rank).board;
    if (board.last(kCollective) < mine.number) {
      return false;
    }
    const auto theirs = board.line(kCollective, mine.number);
    disagree |= theirs && !agree(mine.signature, group_->facts.rank, theirs->signature, rank);
    return theirs.has_value();
  };
  for (int round = 0;; ++round) {
    const bool agreed = !disagree;
    std::erase_if(awaited, has_called);
    const auto now = steady_clock::now();
    if (disagree && agreed) { // so that the error can name the other ranks' calls too
      end = std::min(end, now + kGrace);
    }
    if (awaited.empty() || (disagree && now >= end)) {
      break;
    }
    if (stopping_) {
      end = std::min(end, end_of_grace_);
    }
    if (now >= end) {
      if (stopping_) {
        throw Explained("the group was shut down before the other ranks had called");
      }
      throw std::runtime_error(c10::str(
          "Timed out waiting ", item.timeout.count(), "ms for the other ranks to call it"));
    }
    if (now >= next_look) {
      next_look = now + kLook;
      for (const auto rank : awaited) {
        const bool gone = fate_of(roster.member(rank).process) == Fate::gone;
        if (gone && !has_called(rank)) {
          throw std::runtime_error("without it the call cannot be done");
        }
      }
    }
    constexpr int kYields = 50;
    if (round < kYields) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(round < 10 * kYields ? 100 : 1000));
    }
  }
  if (disagree) {
    refuse(item);
  }
}

void Checker::refuse(const Item& item) const {
  const auto& facts = group_->facts;
  const auto number = item.record->line().number;
  std::vector<std::pair<std::string, std::vector<int64_t>>> calls;
  for (int rank = 0; rank < facts.size; ++rank) {
    const auto& board = group_->roster.member(rank).board;
    const auto line = board ? board->line(kCollective, number) : std::nullopt;
    auto said = line ? line->signature.in_words(facts) : std::string("nothing that is known yet");
    const auto same = std::find_if(
        calls.begin(), calls.end(), [&said](const auto& call) { return call.first == said; });
    if (same != calls.end()) {
      same->second.push_back(facts.global(rank));
    } else {
      calls.push_back({std::move(said), {facts.global(rank)}});
    }
  }
  std::string text =
      c10::str("the ranks do not agree on call #", number, " of ", facts.in_words(), ":");
  for (const auto& [said, ranks] : calls) {
    text += c10::str(
        &said == &calls.front().first ? " " : "; ",
        ranks.size() == 1 ? "rank " : "ranks ",
        c10::Join(", ", ranks),
        " called ",
        said);
  }
  throw Explained(text);
}

} // namespace chip
