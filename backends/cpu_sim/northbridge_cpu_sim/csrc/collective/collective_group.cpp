// A process group's life, and the path of every call through it.
#include "device/released_gil.h" // first: it includes Python.h

#include "collective/collective.h"

#include "collective/coalesced_work.h"
#include "collective/collective_arguments.h"
#include "collective/work.h"
#include "faults/faults.h"
#include "graphs/recording.h"
#include "streams/streams.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <utility>

namespace chip {
namespace {

MakeBelow& make_below() {
  static auto* make = new MakeBelow; // never destroyed: it may hold a Python function
  return *make;
}

// The device of the first tensor, or the current device.
c10::DeviceIndex index_of(const Call& call) {
  for (const auto* tensors : {&call.updated, &call.in, &call.out}) {
    if (!tensors->empty() && tensors->front().defined() &&
        tensors->front().device().type() == kDeviceType) {
      return tensors->front().device().index();
    }
  }
  return current_device();
}

} // namespace

void set_make_below(MakeBelow make) {
  make_below() = std::move(make);
}

Collective::Collective(
    GroupFacts facts, CollectiveLimits limits, bool checks, const StorePtr& store)
    : Backend(facts.rank, facts.size),
      state_(std::make_shared<GroupState>(std::move(facts), store)),
      limits_(std::move(limits)),
      waiters_(std::make_shared<Waiters>()),
      completions_(std::make_shared<Completions>(waiters_)),
      below_(make_below()(store, rank_, size_, state_->facts.timeout)),
      checker_(checks ? std::make_unique<Checker>(state_) : nullptr) {}

Collective::~Collective() {
  shutdown();
}

const std::string Collective::getBackendName() const {
  return state_->facts.library;
}

c10::intrusive_ptr<c10d::Backend::Options> Collective::getBackendOptions() {
  auto options = c10::make_intrusive<CollectiveOptions>(
      state_->facts.library, std::chrono::milliseconds(state_->timeout_ms));
  options->group_name = state_->facts.name;
  for (int rank = 0; rank < size_; ++rank) {
    options->global_ranks_in_group.push_back(static_cast<uint64_t>(state_->facts.global(rank)));
  }
  return options;
}

void Collective::setTimeout(std::chrono::milliseconds timeout) {
  state_->timeout_ms = timeout.count();
  below()->setTimeout(timeout);
}

// The ranks count equally from the beginning.
void Collective::setSequenceNumberForGroup() {}

uint64_t Collective::getSequenceNumberForGroup() {
  return state_->collectives;
}

BackendPtr Collective::split(
    const StorePtr& store,
    const std::vector<int>& ranks,
    const c10::intrusive_ptr<Options>& options) {
  const auto me = std::find(ranks.begin(), ranks.end(), rank_);
  if (me == ranks.end()) {
    return nullptr;
  }
  GroupFacts facts;
  facts.library = state_->facts.library;
  facts.name = options->group_name;
  facts.rank = static_cast<int>(me - ranks.begin());
  facts.size = static_cast<int>(ranks.size());
  for (const auto rank : ranks) {
    facts.global_ranks.push_back(state_->facts.global(rank));
  }
  facts.timeout = options->timeout;
  const auto own = c10::make_intrusive<c10d::PrefixStore>(facts.name + "/split", store);
  const ReleasedGil released; // it waits for other ranks
  return c10::make_intrusive<Collective>(std::move(facts), limits_, checker_ != nullptr, own);
}

void Collective::startCoalescing() {
  const std::lock_guard<std::mutex> lock(mutex_);
  TORCH_CHECK(
      !coalesced_,
      state_->facts.library,
      " is coalescing calls already. Fix: end that first");
  coalesced_.emplace();
}

WorkPtr Collective::endCoalescing() {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto works = std::exchange(coalesced_, std::nullopt); // empty if a call was rejected
  return c10::make_intrusive<CoalescedWork>(rank_, works ? std::move(*works) : Works());
}

void Collective::abort() {
  if (const auto below = below_if_up()) {
    below->abort();
  }
}

void Collective::shutdown() {
  // Threads may drop the last reference to a Python tensor, for which they need the GIL. A thread
  // that still waits for it when the interpreter ends crashes the process.
  const ReleasedGil released;
  BackendPtr last;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    last.swap(below_);
  }
  if (checker_) {
    checker_->stop();
  }
  waiters_->stop();
  last.reset(); // it waits for its threads
  let_go_of_streams();
}

// Calls that were never awaited hold their tensors until now.
void Collective::let_go_of_streams() {
  decltype(streams_) streams;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    streams.swap(streams_);
  }
  for (const auto& [_, stream] : streams) {
    const auto end = place_of(stream);
    while (!is_reached(end)) {
      try {
        reach(end);
      } catch (const std::exception&) {
        continue; // no thread waits for this call; the board shows its failure
      }
    }
  }
}

BackendPtr Collective::below_if_up() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return below_;
}

BackendPtr Collective::below() const {
  auto below = below_if_up();
  state_->check_is_up(below != nullptr);
  return below;
}

void Collective::check_capturable(const Call& call, c10::DeviceIndex index) const {
  if (call.is_point_to_point || call.type == c10d::OpType::BARRIER) {
    refuse_while_capturing(
        index,
        c10::str(state_->facts.library, "'s ", call.name, " was called"),
        "call it outside of the capture");
  }
}

// In a replay each call ends before the next begins, in the same order on every rank.
void Collective::record_for_replay(const Call& call, c10::DeviceIndex index, Launch launch) {
  const auto self = c10::intrusive_ptr<Collective>::reclaim_copy(this);
  record(
      state_->facts.library + "::" + call.name, [self, call, index, launch = std::move(launch)] {
        const ReleasedGil released; // Gloo's threads may need it
        self->carry_out(call, launch)->wait();
        catch_up(index);
      });
}

WorkPtr Collective::run(const Call& call, Launch launch) {
  refuse_bad_fork();
  const auto index = index_of(call);
  const bool captures = is_capturing(index);
  WorkPtr work;
  try {
    if (captures) {
      check_capturable(call, index);
      work = carry_out(call, launch);
      record_for_replay(call, index, std::move(launch));
    } else {
      work = carry_out(call, std::move(launch));
    }
  } catch (...) {
    const std::lock_guard<std::mutex> lock(mutex_);
    coalesced_.reset(); // torch leaves a block that raises an error without ending it
    throw;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (coalesced_) {
    coalesced_->push_back(work);
    if (!call.is_async) { // the caller waits for all calls at the end
      return nullptr;
    }
  }
  return work;
}

WorkPtr Collective::carry_out(const Call& call, Launch launch) {
  auto below = this->below();
  check_ranks(call);
  if (!call.is_point_to_point) {
    pending_.reach_before(call);
  }
  const auto host = std::make_shared<HostArguments>(limits_, state_->facts.library, size_, call);
  // Faults may raise errors, and then the call does not exist: they come before its number.
  const auto next = static_cast<int64_t>(state_->count_of(call) + 1);
  CollectiveFaults faults(call.name, next, call.outputs);
  const auto record = std::make_shared<CallRecord>(state_, call);
  auto below_work = launched(call, record, host, std::move(below), std::move(launch));
  auto work = c10::make_intrusive<ChipWork>(
      std::move(below_work), record, call.outputs, std::move(faults), completions_);
  if (host->is_converted()) { // the call then waits for its end
    const ReleasedGil released; // Gloo's threads may need it
    work->wait_below(kNoTimeout);
    host->cast_back();
    work->wait();
  } else if (host->is_staged()) {
    host->make_results_stale();
    const auto stream = own_stream(call, host->index());
    const auto place = work->defer_to(stream, [host] { host->bring_back(); });
    if (!call.is_point_to_point) {
      pending_.add(call, place);
    }
  }
  return work;
}

void Collective::check_ranks(const Call& call) const {
  const auto check = [&](const char* what, int rank) {
    TORCH_CHECK_VALUE(
        rank >= 0 && rank < size_,
        state_->facts.library, "'s ", call.name, " on ", state_->facts.here_in_words(),
        " was given ", rank, " as its ", what, ", and ", state_->facts.in_words(), " counts its ",
        size_, " ranks from 0 to ", size_ - 1, ". Fix: use one of these");
  };
  if (call.root) {
    check("root", *call.root);
  }
  if (call.is_point_to_point && call.type != c10d::OpType::RECVANYSOURCE) {
    check("peer", call.peer);
    TORCH_CHECK_VALUE(
        call.peer != rank_,
        state_->facts.library, "'s ", call.name, " on ", state_->facts.here_in_words(),
        " was given that rank itself as its peer, but sends only to other ranks. Fix: copy the "
        "tensor with copy_()");
  }
}

c10::Stream Collective::own_stream(const Call& call, c10::DeviceIndex index) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::tuple key(index, call.is_point_to_point, call.peer, call.tag);
  auto stream = streams_.find(key);
  if (stream == streams_.end()) {
    stream = streams_.emplace(key, library_stream(index)).first;
  }
  return stream->second;
}

WorkPtr Collective::launched(
    const Call& call,
    const std::shared_ptr<CallRecord>& record,
    const std::shared_ptr<HostArguments>& host,
    BackendPtr below,
    Launch launch) {
  std::function<void()> complete; // usually empty: it would hold the tensors as long as the work
  if (host->is_averaged()) {
    complete = [host] { host->average(); };
  }
  if (checker_ && !call.is_point_to_point) {
    return checker_->enqueue(
        record, call, [below = std::move(below), host, launch = std::move(launch), complete] {
          if (const auto work = launch(*below, host->tensors())) {
            work->wait();
          }
          if (complete) {
            complete();
          }
        });
  }
  record->post();
  try {
    auto work = launch(*below, host->tensors());
    if (!call.is_done_by_wait && !complete) {
      return work;
    }
    auto awaited = c10::make_intrusive<AwaitedWork>(
        std::move(work), std::move(complete), rank_, state_->timeout_of(call), waiters_);
    waiters_->add(awaited);
    return awaited;
  } catch (const c10::Error&) {
    std::rethrow_exception(record->refused(std::current_exception()));
  } catch (...) { // for a call that waits at once
    std::rethrow_exception(record->failed(std::current_exception()));
  }
}

} // namespace chip
