// What a call of the communication library is: its name, its tensors on the chip, and what else has
// to be the same on every rank.
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

// Which tensors of a call have to have the same shapes and dtypes on every rank.
enum class Same { updated, in, out };

struct Call {
  const char* name; // as errors and a device.toml have it
  c10d::OpType type = c10d::OpType::UNKNOWN;
  Tensors updated; // read, and written in place
  Tensors in; // read alone
  Tensors out; // written alone
  c10::IValue outputs; // what result() and the future hold

  std::optional<c10d::ReduceOp> reduction;
  Same same = Same::updated;
  std::vector<int64_t> to_ranks; // of an all-to-all: how many elements go to each rank
  std::vector<int64_t> from_ranks; // and how many come from each
  std::optional<int> root; // of a call that has one
  int peer = kAnyRank; // of a send or receive
  int tag = 0;
  bool is_point_to_point = false;
  bool is_done_by_wait = false; // the library below does it once somebody waits, and not before
  bool writes_here = true; // false where another rank gets the result
  bool is_async = true; // the caller waits for it himself
  std::chrono::milliseconds timeout = c10d::kUnsetTimeout;
};

// The same tensors, in the same order, as the library below takes them; and the reduction.
struct HostTensors {
  Tensors updated;
  Tensors in;
  Tensors out;
  c10d::ReduceOp reduction;
};

// Hands the call to the library below.
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

// The tensors in lists of these sizes again.
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
