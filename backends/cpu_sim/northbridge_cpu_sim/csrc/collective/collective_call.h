// A call of the communication library: its name, its tensors on the chip, and the other facts that
// must be equal on every rank.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <functional>
#include <optional>
#include <vector>

namespace chip {

using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<Tensors>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Works = std::vector<WorkPtr>;
using BackendPtr = c10::intrusive_ptr<c10d::Backend>;

constexpr int kAnyRank = -1;

// The tensors whose shapes and dtypes must be equal on every rank.
enum class Same { updated, in, out };

struct Call {
  const char* name; // its name in errors and in device.toml
  c10d::OpType type = c10d::OpType::UNKNOWN;
  Tensors updated; // read, and written in place
  Tensors in; // only read
  Tensors out; // only written
  c10::IValue outputs; // the value of result() and the future

  std::optional<c10d::ReduceOp> reduction;
  Same same = Same::updated;
  std::vector<int64_t> to_ranks; // for an all-to-all: the number of elements to each rank
  std::vector<int64_t> from_ranks; // and from each rank
  std::optional<int> root; // for a call with a root
  int peer = kAnyRank; // for a send or receive
  int tag = 0;
  bool is_point_to_point = false;
  bool is_done_by_wait = false; // the library below does it only when a thread waits
  bool writes_here = true; // false if another rank gets the result
  bool is_async = true; // the caller waits for it
  std::chrono::milliseconds timeout = c10d::kUnsetTimeout;
};

// The same tensors in the same order, in the form for the library below; and the reduction.
struct HostTensors {
  Tensors updated;
  Tensors in;
  Tensors out;
  c10d::ReduceOp reduction;
};

// Passes the call to the library below.
using Launch = std::function<WorkPtr(c10d::Backend& below, HostTensors& host)>;

inline Tensors flat(const TensorLists& lists) {
  Tensors tensors;
  for (const auto& list : lists) {
    tensors.insert(tensors.end(), list.begin(), list.end());
  }
  return tensors;
}

inline std::vector<std::ptrdiff_t> sizes_of(const TensorLists& lists) {
  std::vector<std::ptrdiff_t> sizes;
  for (const auto& list : lists) {
    sizes.push_back(static_cast<std::ptrdiff_t>(list.size()));
  }
  return sizes;
}

// Puts the tensors back into lists of these sizes.
inline TensorLists in_lists(const Tensors& tensors, const std::vector<std::ptrdiff_t>& sizes) {
  TensorLists lists;
  auto next = tensors.begin();
  for (const auto size : sizes) {
    lists.emplace_back(next, next + size);
    next += size;
  }
  return lists;
}

} // namespace chip
