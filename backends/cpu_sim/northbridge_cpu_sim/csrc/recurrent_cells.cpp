// The fused cells that torch composes nn.LSTM and nn.GRU of on devices that are not the CPU, where
// the layers cannot be the CPU's whole (recurrent.cpp). Each consists of differentiable operators,
// in the order in which the CPU's cells compute.
#include "chip.h"

#include <ATen/core/Tensor.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>
#include <torch/library.h>

namespace chip {
namespace {

using at::Tensor;
using std::optional;

Tensor with_bias(const Tensor& gates, const optional<Tensor>& bias) {
  return bias && bias->defined() ? gates + *bias : gates;
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell(
    const Tensor& input_gates,
    const Tensor& hidden_gates,
    const Tensor& cell,
    const optional<Tensor>& input_bias,
    const optional<Tensor>& hidden_bias) {
  const auto gates = with_bias(hidden_gates, hidden_bias) + with_bias(input_gates, input_bias);
  const auto parts = gates.unsafe_chunk(4, 1);
  const auto input = at::sigmoid(parts[0]);
  const auto forget = at::sigmoid(parts[1]);
  const auto next = at::tanh(parts[2]);
  const auto output = at::sigmoid(parts[3]);
  const auto new_cell = (forget * cell) + (input * next);
  const auto new_hidden = output * at::tanh(new_cell);
  // The workspace is for a fused backward; here autograd keeps what it needs.
  return {new_hidden, new_cell, at::empty({0}, cell.options())};
}

std::tuple<Tensor, Tensor> gru_cell(
    const Tensor& input_gates,
    const Tensor& hidden_gates,
    const Tensor& hidden,
    const optional<Tensor>& input_bias,
    const optional<Tensor>& hidden_bias) {
  const auto from_input = with_bias(input_gates, input_bias).unsafe_chunk(3, 1);
  const auto from_hidden = with_bias(hidden_gates, hidden_bias).unsafe_chunk(3, 1);
  const auto reset = at::sigmoid(from_hidden[0] + from_input[0]);
  const auto update = at::sigmoid(from_hidden[1] + from_input[1]);
  const auto next = at::tanh(from_input[2] + from_hidden[2] * reset);
  const auto new_hidden = (hidden - next) * update + next;
  return {new_hidden, at::empty({0}, hidden.options())};
}

} // namespace

TORCH_LIBRARY_IMPL(aten, CHIP_KEY, m) {
  m.impl("_thnn_fused_lstm_cell", lstm_cell);
  m.impl("_thnn_fused_gru_cell", gru_cell);
}

TORCH_LIBRARY_IMPL(aten, CHIP_AUTOGRAD_KEY, m) {
  m.impl("_thnn_fused_lstm_cell", lstm_cell);
  m.impl("_thnn_fused_gru_cell", gru_cell);
}

} // namespace chip
