// The properties of a call that must be equal on every rank, in a form that fits into shared
// memory.
#pragma once

#include "collective/collective_call.h"
#include "collective/group_facts.h"

#include <cstdint>
#include <string>

namespace chip {

struct CallSignature {
  static constexpr size_t kName = 40;
  static constexpr size_t kWords = 60;

  char name[kName] = {};
  int32_t reduction = -1;
  int32_t root = -1;
  int32_t peer = -1; // for a send or receive
  uint32_t splits = 0; // for an all-to-all: the number of ranks in the words
  uint32_t tensors = 0;
  uint32_t words = 0; // their number; `word` holds as many as fit
  uint64_t digest = 0; // for all of them
  // For each tensor the dtype, the number of dimensions, and the sizes. For an all-to-all the
  // dtype, and the numbers of elements to each rank and from each rank.
  int64_t word[kWords] = {};

  static CallSignature of(const Call& call);

  // "all_reduce of float32[3] by sum"
  std::string in_words(const GroupFacts& group) const;
};

// The number of a tensor's elements for each rank; `sizes` are rows, and empty if all are equal.
std::vector<int64_t> elements_for_ranks(
    const at::Tensor& tensor, const std::vector<int64_t>& sizes, int ranks);
std::vector<int64_t> elements_of(const Tensors& tensors);

// "float32"
std::string torch_name_of(c10::ScalarType dtype);

// True if two ranks of a group can meet in these calls.
bool agree(
    const CallSignature& one, int rank_of_one, const CallSignature& other, int rank_of_other);

} // namespace chip
