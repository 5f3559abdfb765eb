// lstm_cell and gru_cell, composed of the same operators as on the CPU. Elsewhere torch composes
// them of fused cells, which the CPU and the export formats of graphs lack.
#pragma once

#include <ATen/core/stack.h>

namespace chip {

void compose_lstm_cell(torch::jit::Stack* stack);
void compose_gru_cell(torch::jit::Stack* stack);

} // namespace chip
