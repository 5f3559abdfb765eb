// The streams of the devices. If streams are deferred, each keeps its work in a queue: it takes
// effect when a thread waits for it, or when the next operation on the stream begins, and not
// before.
#pragma once

#include "device/device.h"

#include <c10/core/Stream.h>
#include <c10/util/SmallVector.h>

#include <atomic>
#include <functional>

namespace chip {

c10::Stream current_stream(c10::DeviceIndex index) noexcept;
// Makes a stream this thread's current one on its device, and returns the previous one.
c10::Stream exchange_stream(const c10::Stream& stream) noexcept;
c10::Stream make_stream(c10::DeviceIndex index) noexcept;
// For the work of a library, which keeps no order with other streams, even if those keep theirs.
c10::Stream library_stream(c10::DeviceIndex index) noexcept;
// One of 32, in turn.
c10::Stream pool_stream(c10::DeviceIndex index) noexcept;
// One of 64 others, in turn, for the continuations of one call's future: it gets no other work
// meanwhile, so that an event recorded there belongs only to that call.
c10::Stream future_stream(c10::DeviceIndex index) noexcept;

// True if work is deferred.
inline bool streams_are_deferred() noexcept {
  return settings().deferred_streams;
}

struct Deferred {
  // Takes effect; `forsaken` is true if memory that it uses was freed meanwhile.
  std::function<void(bool forsaken)> effect;
  // The device memory that it uses and that its stream may lose, by the starts of storages.
  c10::SmallVector<const void*, 2> memory;
};

// Gives work to a stream.
void defer(const c10::Stream& stream, Deferred work);

// All work that a stream had when the place was taken.
struct Place {
  c10::StreamId stream = 0;
  uint64_t position = 0;
  c10::DeviceIndex index = 0;
};
Place place_of(const c10::Stream& stream);
bool is_reached(const Place& place);
// Makes the work before a place take effect, in order. Raises the work's error in each thread that
// waits for it.
void reach(const Place& place);
void reach_all(c10::DeviceIndex index);
// Lets a stream wait for a place before its later work.
void wait_for(const c10::Stream& waiting, const Place& place);

// Allocators call it when they free memory that was allocated on a stream and recorded on others.
using Streams = c10::SmallVector<c10::StreamId, 2>;
void forsake(const void* memory, c10::DeviceIndex index, const Streams& known_to);

namespace detail {
extern std::atomic<int64_t> pending;
} // namespace detail

inline bool anything_is_pending() noexcept {
  return detail::pending.load(std::memory_order_acquire) != 0;
}

// Every operation calls this before it reads or writes memory of a device.
inline void catch_up(c10::DeviceIndex index) {
  if (C10_UNLIKELY(anything_is_pending())) {
    reach(place_of(current_stream(index)));
  }
}

} // namespace chip
