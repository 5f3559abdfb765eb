#include "operators/products.h"

#include "device/device.h"
#include "operators/operator_facts.h"

#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace chip {
namespace {

using at::Tensor;
using c10::IValue;
using c10::OperatorHandle;
using c10::ScalarType;
using torch::jit::Stack;

constexpr int64_t kLarge = 1 << 14; // elements: one matrix of 128×128
constexpr int64_t kSums = 4; // the parts of a product that are added up in bfloat16
constexpr int64_t kWhole = -1;

// A factor, and the dimension over which products of its elements are added up.
struct Factor {
  size_t position;
  int64_t dimension; // kWhole if no sum is over one of its dimensions
};

using Factors = c10::SmallVector<Factor, 3>;

Factors factors_of(Product product, const IValue* arguments) {
  constexpr size_t transposed = 6;
  constexpr size_t groups = 8;
  switch (product) {
    case Product::mm:
      return {{0, 1}, {1, 0}};
    case Product::bmm:
      return {{0, 2}, {1, 1}};
    case Product::addmm:
      return {{1, 1}, {2, 0}};
    case Product::baddbmm:
      return {{1, 2}, {2, 1}};
    case Product::convolution:
      if (arguments[groups].toInt() != 1) {
        return {{0, kWhole}, {1, kWhole}};
      }
      return {{0, 1}, {1, arguments[transposed].toBool() ? 0 : 1}};
    case Product::convolution_backward: // the gradients of weight and bias are sums over the batch
      return {{0, 0}, {1, 0}, {2, kWhole}};
    default:
      return {};
  }
}

// The size of the dimension of the sums; 1 if it has none, or if the kernel will refuse the shapes.
int64_t count_terms(const Factors& factors, const IValue* arguments) {
  std::optional<int64_t> terms;
  for (const auto& [position, dimension] : factors) {
    if (dimension == kWhole) {
      continue;
    }
    const auto& factor = arguments[position].toTensor();
    const auto size = dimension < factor.dim() ? factor.size(dimension) : 1;
    if (size != terms.value_or(size)) {
      return 1;
    }
    terms = size;
  }
  return terms.value_or(1);
}

// The dtype of all tensors; none if they differ, or hold whole or complex numbers.
std::optional<ScalarType> floating_dtype(const IValue* arguments, size_t count) {
  std::optional<ScalarType> dtype;
  for (const auto* value = arguments; value != arguments + count; ++value) {
    if (value->isTensor() && value->toTensor().defined()) {
      const auto found = value->toTensor().scalar_type();
      if (!c10::isFloatingType(found) || found != dtype.value_or(found)) {
        return std::nullopt;
      }
      dtype = found;
    }
  }
  return dtype;
}

bool is_large(const IValue* arguments, size_t count) {
  return std::any_of(arguments, arguments + count, [](const IValue& value) {
    return value.isTensor() && value.toTensor().defined() && value.toTensor().numel() >= kLarge;
  });
}

void call_kernel(const OperatorHandle& op, Stack* stack) {
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
}

template <typename Change>
void change_tensors(IValue* begin, const IValue* end, Change change) {
  for (; begin != end; ++begin) {
    if (begin->isTensor() && begin->toTensor().defined()) {
      *begin = change(begin->toTensor());
    }
  }
}

Tensor truncate_to_tf32(const Tensor& factor) {
  constexpr int32_t read = ~((1 << 13) - 1); // sign, exponent, and 10 of the mantissa's 23 bits
  return factor.resolve_neg().view(ScalarType::Int).bitwise_and(read).view(ScalarType::Float);
}

Tensor flush_denormals(const Tensor& tensor) {
  const double least = tensor.scalar_type() == ScalarType::Half ? 0x1p-14 : 0x1p-126;
  return tensor.masked_fill(tensor.abs().lt(least), 0);
}

void leave_out_addend(Product product, IValue* arguments) {
  if (product == Product::addmm || product == Product::baddbmm) {
    arguments[3] = IValue(int64_t{0}); // beta
  } else if (product == Product::convolution) {
    arguments[2] = IValue(); // bias
  }
}

// Replaces the arguments by the results, of which each is the sum of that of `parts` calls.
void add_parts(const OperatorHandle& op, const OperatorFacts& facts, Stack* stack, int64_t parts) {
  const Stack arguments(stack->end() - static_cast<ptrdiff_t>(facts.argument_count), stack->end());
  const auto factors = factors_of(facts.product, arguments.data());
  const auto terms = count_terms(factors, arguments.data());
  parts = std::clamp<int64_t>(terms, 1, parts);
  // The gradient of the input is not a sum over the batch: its parts are put together.
  const bool joins = facts.product == Product::convolution_backward;
  Stack sums;
  std::vector<Tensor> inputs;
  for (int64_t number = 0; number < parts; ++number) {
    const auto part = settings().other_order ? parts - 1 - number : number;
    const auto begin = terms * part / parts;
    const auto end = terms * (part + 1) / parts;
    Stack results = arguments;
    for (const auto& [position, dimension] : factors) {
      if (dimension != kWhole && parts > 1) {
        results[position] = results[position].toTensor().narrow(dimension, begin, end - begin);
      }
    }
    if (number > 0) {
      leave_out_addend(facts.product, results.data());
    }
    call_kernel(op, &results);
    if (joins && results[0].toTensor().defined()) {
      inputs.push_back(results[0].toTensor());
    }
    for (size_t i = joins ? 1 : 0; number > 0 && i < results.size(); ++i) {
      if (results[i].toTensor().defined()) {
        results[i] = sums[i].toTensor().add(results[i].toTensor());
      }
    }
    sums = std::move(results);
  }
  if (inputs.size() > 1) {
    if (settings().other_order) {
      std::reverse(inputs.begin(), inputs.end());
    }
    sums[0] = at::cat(inputs, 0);
  }
  torch::jit::drop(*stack, facts.argument_count);
  std::move(sums.begin(), sums.end(), std::back_inserter(*stack));
}

// Turns around what is added up. Its arguments are a tensor and, for some, dimensions.
void turn_around(const OperatorFacts& facts, Stack* stack) {
  auto* arguments = stack->data() + stack->size() - facts.argument_count;
  const auto& given = arguments[0].toTensor();
  std::vector<int64_t> dimensions;
  if (facts.argument_count > 1 && arguments[1].isIntList()) {
    dimensions = arguments[1].toIntVector();
  }
  if (dimensions.empty()) {
    dimensions.resize(given.dim());
    std::iota(dimensions.begin(), dimensions.end(), 0);
  }
  if (given.dim() > 0) {
    arguments[0] = given.flip(dimensions);
  }
}

template <typename Number>
void scale_masked(const Tensor& given, const Tensor& mask, double by, const Tensor& result) {
  const auto* from = given.const_data_ptr<Number>();
  const auto* kept = mask.const_data_ptr<bool>();
  auto* to = result.mutable_data_ptr<Number>();
  const auto scale = static_cast<at::opmath_type<Number>>(by);
  at::parallel_for(0, given.numel(), at::internal::GRAIN_SIZE, [=](int64_t begin, int64_t end) {
    for (auto i = begin; i < end; ++i) {
      const auto masked = static_cast<at::opmath_type<Number>>(from[i]) * kept[i];
      to[i] = static_cast<Number>(masked * scale);
    }
  });
}

// Torch's kernel makes a copy of the mask in the tensor's dtype, and two products: each takes as
// long as this, whose results are the same. Returns false if the tensors need torch's kernel.
bool multiply_masked(const OperatorFacts& facts, Stack* stack) {
  const auto* arguments = stack->data() + stack->size() - facts.argument_count;
  const auto& given = arguments[0].toTensor();
  const auto& mask = arguments[1].toTensor();
  if (mask.scalar_type() != ScalarType::Bool || !given.is_non_overlapping_and_dense() ||
      given.is_neg() || given.sizes() != mask.sizes() || given.strides() != mask.strides()) {
    return false;
  }
  const auto by = arguments[2].toDouble();
  auto result = at::empty_like(given);
  switch (given.scalar_type()) {
    case ScalarType::Float:
      scale_masked<float>(given, mask, by, result);
      break;
    case ScalarType::BFloat16:
      scale_masked<at::BFloat16>(given, mask, by, result);
      break;
    case ScalarType::Half:
      scale_masked<at::Half>(given, mask, by, result);
      break;
    default:
      return false;
  }
  torch::jit::drop(*stack, facts.argument_count);
  torch::jit::push(*stack, std::move(result));
  return true;
}

} // namespace

Product product_of(const c10::OperatorName& name) {
  constexpr std::pair<std::string_view, Product> products[] = {
      {"aten::addmm", Product::addmm},
      {"aten::baddbmm", Product::baddbmm},
      {"aten::bmm", Product::bmm},
      {"aten::convolution", Product::convolution},
      {"aten::convolution_backward", Product::convolution_backward},
      {"aten::mm", Product::mm},
      {"aten::native_dropout_backward", Product::masked}};
  const auto& overload = name.overload_name;
  if (settings().other_order && (name.name == "aten::sum" || name.name == "aten::mean") &&
      (overload.empty() || overload == "dim" || overload == "dim_IntList")) {
    return Product::sum;
  }
  for (const auto& [full_name, product] : products) {
    if (overload.empty() && name.name == full_name) {
      return product;
    }
  }
  return Product::none;
}

void multiply(const OperatorHandle& op, const OperatorFacts& facts, Stack* stack) {
  if (facts.product == Product::sum) {
    turn_around(facts, stack);
    call_kernel(op, stack);
    return;
  }
  if (facts.product == Product::masked) {
    if (!multiply_masked(facts, stack)) {
      call_kernel(op, stack);
    }
    return;
  }
  auto* arguments = stack->data() + stack->size() - facts.argument_count;
  const auto dtype = floating_dtype(arguments, facts.argument_count);
  if (!dtype) { // the kernel raises its own error for mixed dtypes
    call_kernel(op, stack);
    return;
  }
  const bool truncates = settings().tf32_products && *dtype == ScalarType::Float;
  const bool is_half = *dtype == ScalarType::Half;
  const bool is_bfloat16 = *dtype == ScalarType::BFloat16;
  const bool flushes = settings().flush_denormals && (is_half || is_bfloat16);
  const bool adds_in_bfloat16 = settings().bfloat16_accumulation && is_bfloat16;
  const auto parts = adds_in_bfloat16 ? kSums : settings().other_order ? 2 : 1;
  const bool widens = (is_half && (parts > 1 || is_large(arguments, facts.argument_count))) ||
      (is_bfloat16 && parts > 1 && !adds_in_bfloat16);
  if (!(truncates || flushes || widens || parts > 1)) {
    call_kernel(op, stack);
    return;
  }
  if (flushes) {
    change_tensors(arguments, arguments + facts.argument_count, flush_denormals);
  }
  if (truncates) {
    for (const auto& factor : factors_of(facts.product, arguments)) {
      arguments[factor.position] = truncate_to_tf32(arguments[factor.position].toTensor());
    }
  }
  if (widens) {
    change_tensors(arguments, arguments + facts.argument_count, [](const Tensor& tensor) {
      return tensor.to(ScalarType::Float);
    });
  }
  add_parts(op, facts, stack, parts);
  auto* results = stack->data() + stack->size() - facts.result_count;
  change_tensors(results, results + facts.result_count, [&](const Tensor& tensor) {
    const auto result = widens ? tensor.to(*dtype) : tensor;
    return flushes ? flush_denormals(result) : result;
  });
}

} // namespace chip
