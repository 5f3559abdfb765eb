// What has to be the same on every rank of a call, in a form that fits into shared memory.
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
  int32_t peer = -1; // of a send or receive
  uint32_t splits = 0; // of an all-to-all: how many ranks the words speak of
  uint32_t tensors = 0;
  uint32_t words = 0; // how many there are; `word` holds as many of them as it can
  uint64_t digest = 0; // of all of them
  // For each tensor its dtype, the number of its dimensions, and their sizes. For an all-to-all
  // the dtype, how many elements go to each rank, and how many come from each.
  int64_t word[kWords] = {};

  static CallSignature of(const Call& call);

  // "all_reduce of float32[3] by sum"
  std::string in_words(const GroupFacts& group) const;
};

// How many elements of a tensor belong to each rank: sizes are rows, and equal ones are left out.
std::vector<int64_t> elements_for_ranks(
    const at::Tensor& tensor, const std::vector<int64_t>& sizes, int ranks);
std::vector<int64_t> elements_of(const Tensors& tensors);

// "float32"
std::string torch_name_of(c10::ScalarType dtype);

// Whether two ranks of a group can meet in these calls.
bool agree(
    const CallSignature& one, int rank_of_one, const CallSignature& other, int rank_of_other);

} // namespace chip
