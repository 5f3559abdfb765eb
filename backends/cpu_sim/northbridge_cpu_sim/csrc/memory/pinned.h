// Pinned host memory: ordinary host memory here, but torch can tell that it was asked for.
#pragma once

#include <c10/core/Allocator.h>

namespace chip {

c10::Allocator* pinned_allocator();
bool is_pinned(const void* data);

} // namespace chip
