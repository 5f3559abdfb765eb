#include "graphs/graph.h"

#include "device/device.h"
#include "device/device_errors.h"
#include "streams/streams.h"

#include <fstream>
#include <utility>

namespace chip {

Graph::~Graph() {
  if (is_capturing_) {
    end_recording();
  }
}

void Graph::capture_begin(c10::MempoolId_t pool, at::GraphCaptureMode) {
  use();
  const auto index = current_device();
  TORCH_CHECK(
      recording_ == nullptr || is_capturing_,
      "this graph of ",
      c10::Device(kDeviceType, index),
      " has captured work already. Fix: reset() it, or use another graph");
  reach_all(index);
  auto recording = begin_recording(index);
  recording->stream = current_stream(index).id();
  recording_ = std::move(recording);
  is_capturing_ = true;
  pool_ = pool;
}

void Graph::capture_end() {
  TORCH_CHECK(
      is_capturing_,
      "this graph of ",
      type_name(),
      " is not capturing. Fix: call capture_begin() before capture_end()");
  is_capturing_ = false;
  end_recording();
  // Work of other threads ends with the calls that record it.
  const std::lock_guard<std::mutex> lock(recording_->mutex);
  const auto stream = current_stream(recording_->index).id();
  if (stream != recording_->stream && recording_->refusal.empty()) {
    recording_->refusal = c10::str(
        "the capture began on stream ",
        recording_->stream,
        " and ended on stream ",
        stream,
        ". Fix: end it on the stream where it began");
    TORCH_CHECK(false, recording_->refusal);
  }
}

void Graph::check_captured() const {
  TORCH_CHECK(
      recording_ != nullptr,
      "this graph of ",
      type_name(),
      " has captured nothing. Fix: call capture_begin() and capture_end() before replay()");
  TORCH_CHECK(
      !is_capturing_,
      "this graph of ",
      type_name(),
      " is still capturing. Fix: call capture_end() before replay()");
  TORCH_CHECK(
      recording_->refusal.empty(), "this graph's capture failed: ", recording_->refusal);
}

void Graph::instantiate() {
  check_captured();
}

void Graph::replay() {
  use();
  check_captured();
  const auto index = recording_->index;
  refuse_while_capturing(index, "a replay of another graph was asked for", "replay it before or after");
  const CurrentDevice on(index);
  check_working(index);
  catch_up(index);
  for (const auto& call : recording_->calls) {
    call.again();
  }
}

void Graph::reset() {
  if (std::exchange(is_capturing_, false)) {
    end_recording();
  }
  recording_.reset();
}

c10::MempoolId_t Graph::pool() const {
  return pool_;
}

void Graph::debug_dump(const std::string& path) {
  check_captured();
  std::ofstream file(path);
  for (const auto& call : recording_->calls) {
    file << call.name << '\n';
  }
  TORCH_CHECK(file.good(), path, " cannot be written");
}

void register_graph() {
  at::GraphImplRegistry()->Register(
      c10::DeviceTypeName(kDeviceType, /*lower_case=*/false),
      [](const at::GraphImplArgs& args) -> std::unique_ptr<at::GraphImplInterface> {
        return std::make_unique<Graph>(args);
      });
}

} // namespace chip
