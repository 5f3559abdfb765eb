// Torch's interface of a graph, over a recording: the calls run while they are captured, and again
// in each replay, without Python, autograd or dispatch above the kernels.
#pragma once

#include "graphs/recording.h"

#include <ATen/core/GraphImplInterface.h>

#include <memory>
#include <string>
#include <vector>

namespace chip {

class Graph final : public at::GraphImplInterface {
 public:
  explicit Graph(const at::GraphImplArgs&) {}
  ~Graph() override;

  void capture_begin(c10::MempoolId_t pool, at::GraphCaptureMode mode) override;
  void capture_end() override;
  void instantiate() override;
  void replay() override;
  void reset() override;
  c10::MempoolId_t pool() const override;
  void enable_debug_mode() override {}
  void debug_dump(const std::string& path) override;

 private:
  void check_captured() const;

  std::shared_ptr<Recording> recording_; // null before the first capture
  bool is_capturing_ = false;
  c10::MempoolId_t pool_ = {0, 0};
};

// Lets torch.accelerator.Graph find it, under the device type's present name.
void register_graph();

} // namespace chip
