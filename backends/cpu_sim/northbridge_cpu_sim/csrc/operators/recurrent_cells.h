// lstm_cell and gru_cell of the operators that the CPU composes them of. Elsewhere torch composes
// them of fused cells, which the CPU does not have, nor do the formats that graphs are exported to.
#pragma once

#include <ATen/core/stack.h>

namespace chip {

void compose_lstm_cell(torch::jit::Stack* stack);
void compose_gru_cell(torch::jit::Stack* stack);

} // namespace chip
