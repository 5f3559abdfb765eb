#include "operators/operator_facts.h"

#include "device/device.h"
#include "memory/alias.h"

#include <ATen/core/jit_type.h>

#include <optional>

namespace chip {
namespace {

std::optional<Kind> kind_of(const c10::Type& type) {
  if (type.kind() == c10::TypeKind::OptionalType) {
    return kind_of(*type.castRaw<c10::OptionalType>()->getElementType());
  }
  switch (type.kind()) {
    case c10::TypeKind::TensorType:
      return Kind::tensor;
    case c10::TypeKind::DeviceObjType:
      return Kind::device;
    case c10::TypeKind::GeneratorType:
      return Kind::generator;
    case c10::TypeKind::ListType: {
      const auto& element = *type.castRaw<c10::ListType>()->getElementType();
      if (element.kind() == c10::TypeKind::TensorType) {
        return Kind::tensors;
      }
      if (kind_of(element) == Kind::tensor) {
        return Kind::indices; // Tensor?[] is the type of a tensor's indices in schemas
      }
      return std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

bool writes(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

int16_t argument_returned_as(const c10::Argument& result, const c10::FunctionSchema& schema) {
  if (writes(result)) {
    const auto& arguments = schema.arguments();
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (writes(arguments[i]) && *arguments[i].alias_info() == *result.alias_info()) {
        return static_cast<int16_t>(i);
      }
    }
  }
  return -1;
}

} // namespace

OperatorFacts::OperatorFacts(const c10::OperatorHandle& op)
    : limits(limits_of(op.operator_name())),
      argument_count(op.schema().arguments().size()),
      result_count(op.schema().returns().size()),
      product(product_of(op.operator_name())),
      shows_data(
          op.hasTag(at::Tag::data_dependent_output) || op.hasTag(at::Tag::dynamic_output_shape)) {
  const auto& schema = op.schema();
  for (size_t i = 0; i < argument_count; ++i) {
    const auto& argument = schema.arguments()[i];
    if (auto kind = kind_of(*argument.type())) {
      arguments.push_back({static_cast<uint16_t>(i), *kind, writes(argument)});
    }
  }
  for (size_t i = 0; i < result_count; ++i) {
    const auto& result = schema.returns()[i];
    if (auto kind = kind_of(*result.type())) {
      results.push_back({static_cast<uint16_t>(i), *kind, argument_returned_as(result, schema)});
    }
  }
}

bool reads_data(const OperatorFacts& facts, const c10::IValue* arguments) {
  for (const auto& argument : facts.arguments) {
    if (argument.kind == Kind::indices) { // only masks are counted
      bool masked = false;
      arguments[argument.position].visit([&](const c10::IValue& inner) {
        masked = masked ||
            (inner.isTensor() && inner.toTensor().defined() &&
             (inner.toTensor().scalar_type() == c10::ScalarType::Bool ||
              inner.toTensor().scalar_type() == c10::ScalarType::Byte));
        return masked;
      });
      return masked;
    }
  }
  return facts.shows_data;
}

c10::DeviceIndex device_of(const OperatorFacts& facts, const c10::IValue* arguments) {
  for (const auto& argument : facts.arguments) {
    const auto& value = arguments[argument.position];
    if (value.isDevice() && value.toDevice().type() == kDeviceType) {
      return checked_index(value.toDevice().index());
    }
    std::optional<c10::DeviceIndex> found;
    value.visit([&](const c10::IValue& inner) {
      if (!found && inner.isTensor() && inner.toTensor().defined() && on_chip(inner.toTensor())) {
        found = inner.toTensor().device().index();
      }
      return found.has_value();
    });
    if (found) {
      return *found;
    }
  }
  return current_device();
}

} // namespace chip
