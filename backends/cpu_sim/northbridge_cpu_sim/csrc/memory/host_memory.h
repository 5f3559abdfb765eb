// Host memory: the devices' blocks, and pinned memory.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>

namespace chip {

// Raises OutOfMemoryError if the host has too little. With the strict options, every byte is 0xFF,
// which is NaN in each floating dtype that has NaN, except float8 in the variants fnuz, and freed
// memory cannot be touched.
c10::DataPtr take_host_memory(size_t bytes);

// Trapped memory: whole pages. After it is freed, it is inaccessible until 4096 other blocks have
// been freed. A touch meanwhile prints a message on stderr, and ends by SIGSEGV.
c10::DataPtr take_trapped_memory(size_t bytes);

// Raises OutOfMemoryError: the host has no `bytes` left.
[[noreturn]] void refuse_host_memory(size_t bytes);

// Raises OutOfMemoryError if `error` is the CPU's own, from a kernel without memory for its result:
// users of the chip do not look for the CPU's text.
void refuse_host_memory_of(const c10::Error& error);

// True if freed memory is trapped, so that each block must come from `take_host_memory`.
bool freed_memory_is_trapped() noexcept;

// Pinned memory: ordinary host memory here, but torch can see that it was requested.
c10::Allocator* pinned_allocator();
bool is_pinned(const void* data);

} // namespace chip
