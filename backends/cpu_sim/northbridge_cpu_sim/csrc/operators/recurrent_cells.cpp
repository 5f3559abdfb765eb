// The fused cells of which torch composes nn.LSTM and nn.GRU on devices other than the CPU, if the
// layers cannot run whole on the CPU (recurrent.cpp). Each consists of differentiable operators, in
// the order of the CPU's cells.
#include "operators/recurrent_cells.h"

#include "chip.h"

#include <ATen/core/Tensor.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/stack.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>
#include <torch/library.h>

#include <algorithm>
#include <initializer_list>

namespace chip {
namespace {

using at::Tensor;
using std::optional;

Tensor with_bias(const Tensor& gates, const optional<Tensor>& bias) {
  return bias && bias->defined() ? gates + *bias : gates;
}

void check_gates(
    int64_t factor,
    const Tensor& input_gates,
    const Tensor& hidden_gates,
    const Tensor& state,
    std::initializer_list<optional<Tensor>> biases) {
  const auto fits = [&](const optional<Tensor>& bias) {
    return !bias || !bias->defined() || (bias->dim() == 1 && bias->size(0) == input_gates.size(1));
  };
  TORCH_CHECK(
      input_gates.dim() == 2 && hidden_gates.sizes() == input_gates.sizes() && state.dim() == 2 &&
          state.size(0) == input_gates.size(0) &&
          factor * state.size(1) == input_gates.size(1) &&
          std::all_of(biases.begin(), biases.end(), fits),
      "gates of ",
      input_gates.sizes(),
      " and ",
      hidden_gates.sizes(),
      " do not fit a state of ",
      state.sizes(),
      ", or a bias does not fit them. Fix: give gates of [batch, ",
      factor,
      " * size], a state of [batch, size] and biases of [",
      factor,
      " * size]");
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell(
    const Tensor& input_gates,
    const Tensor& hidden_gates,
    const Tensor& cell,
    const optional<Tensor>& input_bias,
    const optional<Tensor>& hidden_bias) {
  check_gates(4, input_gates, hidden_gates, cell, {input_bias, hidden_bias});
  const auto gates = with_bias(hidden_gates, hidden_bias) + with_bias(input_gates, input_bias);
  const auto parts = gates.unsafe_chunk(4, 1);
  const auto input = at::sigmoid(parts[0]);
  const auto forget = at::sigmoid(parts[1]);
  const auto next = at::tanh(parts[2]);
  const auto output = at::sigmoid(parts[3]);
  const auto new_cell = (forget * cell) + (input * next);
  const auto new_hidden = output * at::tanh(new_cell);
  // The workspace is for a fused backward; here autograd saves its inputs.
  return {new_hidden, new_cell, at::empty({0}, cell.options())};
}

std::tuple<Tensor, Tensor> gru_cell(
    const Tensor& input_gates,
    const Tensor& hidden_gates,
    const Tensor& hidden,
    const optional<Tensor>& input_bias,
    const optional<Tensor>& hidden_bias) {
  check_gates(3, input_gates, hidden_gates, hidden, {input_bias, hidden_bias});
  const auto from_input = with_bias(input_gates, input_bias).unsafe_chunk(3, 1);
  const auto from_hidden = with_bias(hidden_gates, hidden_bias).unsafe_chunk(3, 1);
  const auto reset = at::sigmoid(from_hidden[0] + from_input[0]);
  const auto update = at::sigmoid(from_hidden[1] + from_input[1]);
  const auto next = at::tanh(from_input[2] + from_hidden[2] * reset);
  const auto new_hidden = (hidden - next) * update + next;
  return {new_hidden, at::empty({0}, hidden.options())};
}

} // namespace

void compose_lstm_cell(torch::jit::Stack* stack) {
  Tensor input, input_weight, hidden_weight;
  std::vector<Tensor> state;
  optional<Tensor> input_bias, hidden_bias;
  torch::jit::pop(*stack, input, state, input_weight, hidden_weight, input_bias, hidden_bias);
  const auto hidden_gates = at::linear(state[0], hidden_weight, hidden_bias);
  const auto input_gates = at::linear(input, input_weight, input_bias);
  const auto gates = hidden_gates.add_(input_gates).unsafe_chunk(4, 1);
  const auto in = gates[0].sigmoid_();
  const auto forget = gates[1].sigmoid_();
  const auto next = gates[2].tanh_();
  const auto out = gates[3].sigmoid_();
  const auto cell = (forget * state[1]).add_(in * next);
  torch::jit::push(*stack, out * cell.tanh(), cell);
}

void compose_gru_cell(torch::jit::Stack* stack) {
  Tensor input, hidden, input_weight, hidden_weight;
  optional<Tensor> input_bias, hidden_bias;
  torch::jit::pop(*stack, input, hidden, input_weight, hidden_weight, input_bias, hidden_bias);
  const auto from_input = at::linear(input, input_weight, input_bias).unsafe_chunk(3, 1);
  const auto from_hidden = at::linear(hidden, hidden_weight, hidden_bias).unsafe_chunk(3, 1);
  const auto reset = from_hidden[0].add_(from_input[0]).sigmoid_();
  const auto update = from_hidden[1].add_(from_input[1]).sigmoid_();
  const auto next = from_input[2].add(from_hidden[2].mul_(reset)).tanh_();
  torch::jit::push(*stack, (hidden - next).mul_(update).add_(next));
}

TORCH_LIBRARY_IMPL(aten, CHIP_KEY, m) {
  m.impl("_thnn_fused_lstm_cell", lstm_cell);
  m.impl("_thnn_fused_gru_cell", gru_cell);
}

TORCH_LIBRARY_IMPL(aten, CHIP_AUTOGRAD_KEY, m) {
  m.impl("_thnn_fused_lstm_cell", lstm_cell);
  m.impl("_thnn_fused_gru_cell", gru_cell);
}

} // namespace chip
