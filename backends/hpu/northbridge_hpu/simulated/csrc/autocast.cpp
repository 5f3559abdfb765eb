// Mixed precision with the vendor's own lists, which differ from CUDA's: mul, mean and softmax are
// lowered, and nothing is banned. A list names operators without overloads; the first list with a
// name decides. Casts are never cached.
#include "chip.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <set>
#include <string>

namespace {

using at::Tensor;
using c10::IValue;
using torch::jit::Stack;
using Names = std::set<std::string>;

constexpr auto kAutocastKey = c10::DispatchKey::CHIP_AUTOCAST_KEY;

const Names lowered{
    "addmm", "addbmm", "batch_norm", "baddbmm", "bmm", "conv1d", "conv2d", "conv3d",
    "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "dot", "dropout",
    "feature_dropout", "group_norm", "instance_norm", "layer_norm", "leaky_relu", "linear",
    "matmul", "mean", "mm", "mul", "mv", "softmax", "log_softmax", "scaled_dot_product_attention"};

const Names in_float32{
    "acos", "addcdiv", "asin", "atan2", "bilinear", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "cdist", "cosh", "cosine_embedding_loss",
    "cosine_similarity", "cross_entropy_loss", "dist", "div", "divide", "embedding",
    "embedding_bag", "erfinv", "exp", "expm1", "hinge_embedding_loss", "huber_loss", "kl_div",
    "l1_loss", "log", "log10", "log1p", "log2", "logsumexp", "margin_ranking_loss", "mse_loss",
    "multi_margin_loss", "multilabel_margin_loss", "nll_loss", "pdist", "poisson_nll_loss", "pow",
    "reciprocal", "renorm", "rsqrt", "sinh", "smooth_l1_loss", "soft_margin_loss", "softplus",
    "tan", "topk", "triplet_margin_loss", "truediv", "true_divide"};

const Names in_the_widest{
    "add", "addcmul", "addcdiv", "cat", "div", "exp", "mul", "pow", "sub", "iadd", "truediv",
    "stack"};

// Only the input of these is lowered: statistics and weights stay unchanged.
const Names lowered_in_front{"layer_norm", "group_norm", "instance_norm", "batch_norm"};

// The vendor lets a file replace a list, with one name on each line.
Names read_instead(const char* variable, const Names& list) {
  const char* path = std::getenv(variable);
  if (path == nullptr || *path == '\0') {
    return list;
  }
  std::ifstream file(path);
  TORCH_CHECK(file.is_open(), variable, "=", path, " names a file that cannot be read");
  Names names;
  for (std::string name; file >> name;) {
    names.insert(name);
  }
  return names;
}

bool is_eligible(const Tensor& tensor) {
  return at::autocast::is_eligible(tensor, chip::kDeviceType);
}

// Replaces each tensor in the first `count` arguments by the result of `use`.
template <typename Use>
void replace_tensors(IValue* arguments, size_t count, const Use& use) {
  for (IValue* value = arguments; value != arguments + count; ++value) {
    if (value->isTensor()) {
      *value = use(value->toTensor());
    } else if (value->isTensorList()) {
      c10::List<Tensor> list;
      for (const IValue& element : value->toListRef()) {
        list.push_back(use(element.toTensor()));
      }
      *value = std::move(list);
    }
  }
}

enum class Policy { lower, lower_in_front, float32, widest };

c10::ScalarType chosen(Policy policy, IValue* arguments, size_t count) {
  auto dtype = policy == Policy::float32
      ? at::kFloat
      : at::autocast::get_autocast_dtype(chip::kDeviceType);
  if (policy == Policy::widest) {
    replace_tensors(arguments, count, [&dtype](const Tensor& tensor) {
      dtype = at::autocast::prioritize(dtype, tensor, chip::kDeviceType);
      return tensor;
    });
  }
  return dtype;
}

struct Autocast final : c10::OperatorKernel {
  explicit Autocast(Policy policy) : policy_(policy) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(kAutocastKey);
    const auto count = op.schema().arguments().size();
    IValue* arguments = stack->data() + stack->size() - count;
    const auto dtype = chosen(policy_, arguments, count);
    replace_tensors(
        arguments,
        policy_ == Policy::lower_in_front ? 1 : count,
        [dtype](const Tensor& tensor) {
          return is_eligible(tensor) && tensor.scalar_type() != dtype ? tensor.to(dtype) : tensor;
        });
    op.callBoxed(stack);
  }

 private:
  const Policy policy_;
};

std::optional<Policy> policy_of(const std::string& name, const Names& lower, const Names& float32) {
  if (lower.count(name)) {
    return lowered_in_front.count(name) ? Policy::lower_in_front : Policy::lower;
  }
  if (float32.count(name)) {
    return Policy::float32;
  }
  return in_the_widest.count(name) ? std::optional(Policy::widest) : std::nullopt;
}

bool writes(const c10::FunctionSchema& schema) {
  for (const auto& argument : schema.arguments()) {
    if (argument.alias_info() != nullptr && argument.alias_info()->isWrite()) {
      return true;
    }
  }
  return false;
}

} // namespace

TORCH_LIBRARY_IMPL(_, CHIP_AUTOCAST_KEY, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, CHIP_AUTOCAST_KEY, m) {
  const auto lower = read_instead("PT_HPU_AUTOCAST_LOWER_PRECISION_OPS_LIST", lowered);
  const auto float32 = read_instead("PT_HPU_AUTOCAST_FP32_OPS_LIST", in_float32);
  auto& dispatcher = c10::Dispatcher::singleton();
  const std::string aten = "aten::";
  for (const auto& full_name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(full_name);
    if (!op || full_name.name.compare(0, aten.size(), aten) != 0 || writes(op->schema())) {
      continue;
    }
    if (const auto policy = policy_of(full_name.name.substr(aten.size()), lower, float32)) {
      m.impl(
          c10::toString(full_name).c_str(),
          torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Autocast>(*policy)));
    }
  }
}
