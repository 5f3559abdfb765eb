#include "collective/collective_limits.h"

#include "device/dtypes.h"

#include <c10/util/Exception.h>

#include <algorithm>

namespace chip {
namespace {

template <typename Map, typename Key>
void refuse_if_in(const Map& sentences, const Key& key) {
  const auto found = sentences.find(key);
  TORCH_CHECK(found == sentences.end(), found->second);
}

} // namespace

const char* name_of(const c10d::ReduceOp& reduction) {
  switch (static_cast<c10d::ReduceOp::RedOpType>(reduction)) {
    case c10d::ReduceOp::SUM:
      return "sum";
    case c10d::ReduceOp::AVG:
      return "avg";
    case c10d::ReduceOp::PRODUCT:
      return "product";
    case c10d::ReduceOp::MIN:
      return "min";
    case c10d::ReduceOp::MAX:
      return "max";
    case c10d::ReduceOp::BAND:
      return "band";
    case c10d::ReduceOp::BOR:
      return "bor";
    case c10d::ReduceOp::BXOR:
      return "bxor";
    case c10d::ReduceOp::PREMUL_SUM:
      return "premul_sum";
    default:
      return "";
  }
}

void CollectiveLimits::check_call(const char* call) const {
  refuse_if_in(lacking_calls, call);
}

void CollectiveLimits::check_dtype(const char* call, c10::ScalarType dtype) const {
  const auto sentences = lacking_dtypes.find(call);
  if (sentences != lacking_dtypes.end()) {
    refuse_if_in(sentences->second, dtype);
  }
}

void CollectiveLimits::check_reduction(const c10d::ReduceOp& reduction) const {
  refuse_if_in(lacking_reductions, name_of(reduction));
}

c10::ScalarType CollectiveLimits::reduced_as(c10::ScalarType dtype) const {
  const bool as_it_is =
      !through || std::find(natively.begin(), natively.end(), dtype) != natively.end();
  return as_it_is ? held_as(dtype) : *through;
}

} // namespace chip
