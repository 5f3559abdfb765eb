// The streams of the devices. Where streams are deferred, each keeps the work that was given to it
// in a queue: it takes effect when somebody waits for it, or when the next operation on the stream
// begins, and not before.
#pragma once

#include "device/device.h"

#include <c10/core/Stream.h>
#include <c10/util/SmallVector.h>

#include <atomic>
#include <functional>

namespace chip {

c10::Stream current_stream(c10::DeviceIndex index) noexcept;
// Makes a stream this thread's current one on its device, and gives the one before.
c10::Stream exchange_stream(const c10::Stream& stream) noexcept;
c10::Stream make_stream(c10::DeviceIndex index) noexcept;
// One of 32, in turn.
c10::Stream pool_stream(c10::DeviceIndex index) noexcept;
// One of 64 others, in turn, for what follows the future of one call: nothing else is given to it
// meanwhile, so that an event recorded there stands for that call alone.
c10::Stream future_stream(c10::DeviceIndex index) noexcept;

// Whether work is deferred at all.
inline bool streams_are_deferred() noexcept {
  return settings().deferred_streams;
}

struct Deferred {
  // Takes effect; `forsaken` where memory that it uses was freed meanwhile.
  std::function<void(bool forsaken)> effect;
  // The device memory that it uses and that its stream may lose: starts of storages.
  c10::SmallVector<const void*, 2> memory;
};

// Gives work to a stream.
void defer(const c10::Stream& stream, Deferred work);

// All that had been given to a stream when the place was taken.
struct Place {
  c10::StreamId stream = 0;
  uint64_t position = 0;
  c10::DeviceIndex index = 0;
};
Place place_of(const c10::Stream& stream);
bool is_reached(const Place& place);
// Makes the work before a place take effect, in order. Raises what the work raises, in each thread
// that waits for it meanwhile.
void reach(const Place& place);
void reach_all(c10::DeviceIndex index);
// Lets a stream wait for a place before what it is given from now on.
void wait_for(const c10::Stream& waiting, const Place& place);

// What allocators call when they free memory that was allocated on a stream and recorded on others.
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
