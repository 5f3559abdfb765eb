#include "collective/call_signature.h"

#include "collective/collective_limits.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <sstream>

namespace chip {
namespace {

class Words {
 public:
  explicit Words(CallSignature& signature) : signature_(signature) {}

  void add(int64_t word) {
    if (signature_.words < CallSignature::kWords) {
      signature_.word[signature_.words] = word;
    }
    ++signature_.words;
    constexpr uint64_t kPrime = 1099511628211; // FNV-1a
    signature_.digest = (signature_.digest ^ static_cast<uint64_t>(word)) * kPrime;
  }
  void add(const std::vector<int64_t>& words) {
    for (const auto word : words) {
      add(word);
    }
  }

 private:
  CallSignature& signature_;
};

const Tensors& compared(const Call& call) {
  switch (call.same) {
    case Same::updated:
      return call.updated;
    case Same::in:
      return call.in;
    default:
      return call.out;
  }
}

std::string dtype_in_words(int64_t word) {
  return torch_name_of(static_cast<c10::ScalarType>(word));
}

std::string tensors_in_words(const CallSignature& signature) {
  constexpr uint32_t kShown = 4;
  std::ostringstream words;
  uint32_t at = 0;
  const uint32_t held = std::min<uint32_t>(signature.words, CallSignature::kWords);
  for (uint32_t tensor = 0; tensor < signature.tensors; ++tensor) {
    const bool whole = at + 2 <= held && at + 2 + signature.word[at + 1] <= held;
    if (tensor == kShown || !whole) {
      words << " and " << signature.tensors - tensor << " more";
      break;
    }
    words << (tensor == 0 ? "" : ", ") << dtype_in_words(signature.word[at]) << '[';
    const auto dimensions = static_cast<uint32_t>(signature.word[at + 1]);
    for (uint32_t i = 0; i < dimensions; ++i) {
      words << (i == 0 ? "" : ", ") << signature.word[at + 2 + i];
    }
    words << ']';
    at += 2 + dimensions;
  }
  return words.str();
}

std::string splits_in_words(const CallSignature& signature, const GroupFacts& group) {
  if (signature.words > CallSignature::kWords) {
    return c10::str(dtype_in_words(signature.word[0]), " in uneven parts");
  }
  const auto* first = signature.word + 1;
  const auto* second = first + signature.splits;
  return c10::str(
      dtype_in_words(signature.word[0]),
      " with ",
      c10::Join(", ", std::vector<int64_t>(first, second)),
      " elements to and ",
      c10::Join(", ", std::vector<int64_t>(second, second + signature.splits)),
      " from ",
      group.global_ranks.empty() ? c10::str("ranks 0 to ", signature.splits - 1)
                                 : "ranks " + c10::Join(", ", group.global_ranks));
}

} // namespace

std::vector<int64_t> elements_for_ranks(
    const at::Tensor& tensor, const std::vector<int64_t>& sizes, int ranks) {
  if (sizes.empty()) {
    return std::vector<int64_t>(static_cast<size_t>(ranks), tensor.numel() / ranks);
  }
  const auto rows = tensor.dim() == 0 ? 0 : tensor.size(0);
  const auto row = rows == 0 ? 0 : tensor.numel() / rows;
  auto counts = sizes;
  for (auto& count : counts) {
    count *= row;
  }
  return counts;
}

std::vector<int64_t> elements_of(const Tensors& tensors) {
  std::vector<int64_t> counts;
  for (const auto& tensor : tensors) {
    counts.push_back(tensor.numel());
  }
  return counts;
}

std::string torch_name_of(c10::ScalarType dtype) {
  switch (dtype) { // torch's own table is not exported
    case at::kFloat:
      return "float32";
    case at::kDouble:
      return "float64";
    case at::kHalf:
      return "float16";
    case at::kByte:
      return "uint8";
    case at::kChar:
      return "int8";
    case at::kShort:
      return "int16";
    case at::kInt:
      return "int32";
    case at::kLong:
      return "int64";
    case at::kComplexHalf:
      return "complex32";
    case at::kComplexFloat:
      return "complex64";
    case at::kComplexDouble:
      return "complex128";
    default: // "BFloat16", "UInt16", "Float8_e5m2"
      std::string name = c10::toString(dtype);
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char letter) {
        return static_cast<char>(std::tolower(letter));
      });
      return name;
  }
}

CallSignature CallSignature::of(const Call& call) {
  CallSignature signature;
  std::strncpy(signature.name, call.name, kName - 1);
  signature.reduction = call.reduction ? static_cast<int32_t>(call.reduction->op_) : -1;
  signature.root = call.root.value_or(-1);
  signature.peer = call.peer;
  Words words(signature);
  if (!call.to_ranks.empty()) {
    signature.splits = static_cast<uint32_t>(call.to_ranks.size());
    words.add(static_cast<int64_t>(call.in.at(0).scalar_type()));
    words.add(call.to_ranks);
    words.add(call.from_ranks);
    return signature;
  }
  const auto& tensors = compared(call);
  signature.tensors = static_cast<uint32_t>(tensors.size());
  for (const auto& tensor : tensors) {
    words.add(static_cast<int64_t>(tensor.scalar_type()));
    words.add(tensor.dim());
    for (const auto size : tensor.sizes()) {
      words.add(size);
    }
  }
  return signature;
}

std::string CallSignature::in_words(const GroupFacts& group) const {
  std::string words = name;
  if (splits > 0) {
    words += " of " + splits_in_words(*this, group);
  } else if (tensors > 0) {
    words += " of " + tensors_in_words(*this);
  }
  if (reduction >= 0) {
    words += c10::str(
        " by ", name_of(c10d::ReduceOp::RedOpType(static_cast<uint8_t>(reduction))));
  }
  if (root >= 0) {
    words += c10::str(reduction >= 0 || !std::strcmp(name, "gather") ? " to rank " : " from rank ",
                      group.global(root));
  }
  if (peer >= 0) {
    words += c10::str(std::strcmp(name, "send") ? " from rank " : " to rank ", group.global(peer));
  }
  return words;
}

bool agree(
    const CallSignature& one, int rank_of_one, const CallSignature& other, int rank_of_other) {
  if (std::strcmp(one.name, other.name) != 0 || one.reduction != other.reduction ||
      one.root != other.root || one.splits != other.splits || one.tensors != other.tensors) {
    return false;
  }
  if (one.splits == 0) {
    return one.words == other.words && one.digest == other.digest;
  }
  if (one.words > CallSignature::kWords || other.words > CallSignature::kWords) {
    return one.word[0] == other.word[0]; // the other words do not fit
  }
  const auto to = [](const CallSignature& from, int rank) { return from.word[1 + rank]; };
  const auto comes = [](const CallSignature& at, int rank) {
    return at.word[1 + at.splits + static_cast<uint32_t>(rank)];
  };
  return one.word[0] == other.word[0] &&
      to(one, rank_of_other) == comes(other, rank_of_one) &&
      to(other, rank_of_one) == comes(one, rank_of_other);
}

} // namespace chip
