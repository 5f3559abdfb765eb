#include "device/released_gil.h" // first: it includes Python.h

#include "streams/streams.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace chip {

namespace detail {
std::atomic<int64_t> pending{0};
} // namespace detail

namespace {

using c10::Stream;
using c10::StreamId;

struct Given {
  Deferred work;
  bool forsaken = false;
};

// A thread in `reach`: the work that it waits for may fail in another thread.
struct Waiter {
  uint64_t position;
  std::exception_ptr failure;
};

struct Queue {
  std::mutex mutex;
  std::condition_variable ended; // one piece of work has ended
  std::deque<Given> waiting;
  std::vector<Waiter*> waiters;
  uint64_t given = 0;
  uint64_t done = 0;
  bool busy = false; // a thread does the piece after `done`
};

struct Queues {
  std::mutex mutex;
  std::map<StreamId, std::unique_ptr<Queue>> of;
};

// Never destroyed: pending work at the process's end may hold Python tensors.
auto& queues = *new std::array<Queues, kMaxDevices>;

thread_local std::array<StreamId, kMaxDevices> current_streams{};

constexpr StreamId kPool = 32; // the ids from 1 on
constexpr StreamId kFutures = 64; // the ids after the pool's
std::atomic<uint64_t> pool_turns{0};
std::atomic<uint64_t> future_turns{0};
std::atomic<StreamId> last_stream{kPool + kFutures};

std::atomic<StreamId> last_library_stream{0}; // the ids below 0

// Streams that keep one order are one queue: the default stream's.
StreamId queue_id(StreamId stream) noexcept {
  const bool own = stream < 0 || (stream > kPool && stream <= kPool + kFutures);
  return settings().ordered_streams && !own ? 0 : stream;
}

Queue& queue_of(c10::DeviceIndex index, StreamId stream) {
  stream = queue_id(stream);
  auto& all = queues[index];
  const std::lock_guard<std::mutex> lock(all.mutex);
  auto& queue = all.of[stream];
  if (!queue) {
    queue = std::make_unique<Queue>();
  }
  return *queue;
}

// Does the first waiting piece of work, whose failure goes to all threads that wait for it; the
// caller holds the lock.
void do_first(Queue& queue, std::unique_lock<std::mutex>& lock) {
  Given first = std::move(queue.waiting.front());
  queue.waiting.pop_front();
  queue.busy = true;
  lock.unlock();
  std::exception_ptr failure;
  try {
    first.work.effect(first.forsaken);
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  queue.busy = false;
  ++queue.done;
  --detail::pending; // last, so that a reader of 0 finds the work done
  if (failure) {
    for (auto* waiter : queue.waiters) {
      if (waiter->position >= queue.done && !waiter->failure) {
        waiter->failure = failure;
      }
    }
  }
  queue.ended.notify_all();
  // Without the lock: freed memory and Python tensors may use this queue.
  lock.unlock();
  first.work = {};
  lock.lock();
}

} // namespace

Stream current_stream(c10::DeviceIndex index) noexcept {
  return Stream(Stream::UNSAFE, {kDeviceType, index}, current_streams[index]);
}

Stream exchange_stream(const Stream& stream) noexcept {
  const auto before = current_stream(stream.device_index());
  current_streams[stream.device_index()] = stream.id();
  return before;
}

Stream make_stream(c10::DeviceIndex index) noexcept {
  return Stream(Stream::UNSAFE, {kDeviceType, index}, ++last_stream);
}

Stream library_stream(c10::DeviceIndex index) noexcept {
  return Stream(Stream::UNSAFE, {kDeviceType, index}, --last_library_stream);
}

Stream pool_stream(c10::DeviceIndex index) noexcept {
  const auto id = static_cast<StreamId>(pool_turns++ % kPool) + 1;
  return Stream(Stream::UNSAFE, {kDeviceType, index}, id);
}

Stream future_stream(c10::DeviceIndex index) noexcept {
  const auto id = kPool + static_cast<StreamId>(future_turns++ % kFutures) + 1;
  return Stream(Stream::UNSAFE, {kDeviceType, index}, id);
}

void defer(const Stream& stream, Deferred work) {
  auto& queue = queue_of(stream.device_index(), stream.id());
  const std::lock_guard<std::mutex> lock(queue.mutex);
  queue.waiting.push_back({std::move(work)});
  ++queue.given;
  ++detail::pending;
}

Place place_of(const Stream& stream) {
  Place place{stream.id(), 0, stream.device_index()};
  if (streams_are_deferred()) {
    auto& queue = queue_of(place.index, place.stream);
    const std::lock_guard<std::mutex> lock(queue.mutex);
    place.position = queue.given;
  }
  return place;
}

bool is_reached(const Place& place) {
  if (place.position == 0) {
    return true;
  }
  auto& queue = queue_of(place.index, place.stream);
  const std::lock_guard<std::mutex> lock(queue.mutex);
  return queue.done >= place.position;
}

void reach(const Place& place) {
  if (is_reached(place)) {
    return;
  }
  // Work may wait for other threads, and may drop Python tensors.
  const ReleasedGil released;
  auto& queue = queue_of(place.index, place.stream);
  Waiter self{place.position, nullptr};
  std::unique_lock<std::mutex> lock(queue.mutex);
  queue.waiters.push_back(&self);
  while (queue.done < self.position && !self.failure) {
    if (queue.busy) {
      queue.ended.wait(lock);
    } else {
      do_first(queue, lock);
    }
  }
  queue.waiters.erase(std::find(queue.waiters.begin(), queue.waiters.end(), &self));
  lock.unlock();
  if (self.failure) {
    std::rethrow_exception(self.failure);
  }
}

void reach_all(c10::DeviceIndex index) {
  if (!anything_is_pending()) {
    return;
  }
  std::vector<StreamId> streams;
  {
    auto& all = queues[index];
    const std::lock_guard<std::mutex> lock(all.mutex);
    for (const auto& [stream, _] : all.of) {
      streams.push_back(stream);
    }
  }
  for (const auto stream : streams) {
    reach(place_of(Stream(Stream::UNSAFE, {kDeviceType, index}, stream)));
  }
}

void wait_for(const Stream& waiting, const Place& place) {
  const bool own = queue_id(place.stream) == queue_id(waiting.id()) && place.index == waiting.device_index();
  if (!own && !is_reached(place)) {
    defer(waiting, {[place](bool) { reach(place); }, {}});
  }
}

void forsake(const void* memory, c10::DeviceIndex index, const Streams& known_to) {
  auto& all = queues[index];
  const std::lock_guard<std::mutex> lock(all.mutex);
  for (auto& [stream, queue] : all.of) {
    const bool is_known = std::any_of(known_to.begin(), known_to.end(), [stream = stream](StreamId known) {
      return queue_id(known) == stream;
    });
    if (is_known) {
      continue;
    }
    const std::lock_guard<std::mutex> lock_queue(queue->mutex);
    for (auto& given : queue->waiting) {
      const auto& used = given.work.memory;
      given.forsaken |= std::find(used.begin(), used.end(), memory) != used.end();
    }
  }
}

} // namespace chip
