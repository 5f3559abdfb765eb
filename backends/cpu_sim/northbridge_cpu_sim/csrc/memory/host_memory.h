// The memory of the host: what a block of a device is made of, and what is pinned.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>

namespace chip {

// Raises OutOfMemoryError where the host has too little. Where the chip was told to, every byte is
// 0xFF, which is NaN in each floating dtype that has one, save float8 in the variants fnuz, and
// memory that was freed cannot be touched again.
c10::DataPtr take_host_memory(size_t bytes);

// Such memory: whole pages. Once freed, they are kept out of everybody's reach until 4096 other
// blocks have been freed; who touches them meanwhile is told so on stderr, and ends by SIGSEGV.
c10::DataPtr take_trapped_memory(size_t bytes);

// Raises OutOfMemoryError: the host has no `bytes` left.
[[noreturn]] void refuse_host_memory(size_t bytes);

// Raises OutOfMemoryError where `error` is the CPU's own, of a kernel that found no memory for its
// result: whoever runs on the chip looks for no words of the CPU's.
void refuse_host_memory_of(const c10::Error& error);

// Whether freed memory is trapped, so that each block has to come from `take_host_memory`.
bool freed_memory_is_trapped() noexcept;

// Pinned memory: ordinary host memory here, but torch can tell that it was asked for.
c10::Allocator* pinned_allocator();
bool is_pinned(const void* data);

} // namespace chip
