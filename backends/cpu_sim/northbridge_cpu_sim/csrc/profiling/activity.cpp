#define USE_KINETO
#include "profiling/activity.h"

#include "bindings.h"
#include "device/device.h"

#include <c10/util/ApproximateClock.h>
#include <kineto/libkineto.h>
#include <kineto/output_base.h>
#include <pybind11/stl.h>
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>

#include <mutex>
#include <set>
#include <utility>

// Its template formats any value by fmt, which would be compiled here as a whole.
template <>
inline void libkineto::GenericTraceActivity::addMetadata(
    const std::string& key, const std::string& value) {
  metadataMap_.emplace(key, std::make_pair(value, false));
}

namespace chip {

std::atomic<bool> profiler_listens{false};

namespace {

using libkineto::ActivityType;

struct ProfiledKernel {
  std::string name;
  int64_t start; // ns since 1970, as torch's own events
  int64_t end;
  uint64_t correlation;
  c10::DeviceIndex device;
  c10::StreamId stream;
};

// Never destroyed: threads of torch outlive the interpreter.
std::mutex& activity_mutex = *new std::mutex;
std::vector<ProfiledKernel>& kernels = *new std::vector<ProfiledKernel>;

void begin_recording_kernels() {
  const std::lock_guard<std::mutex> lock(activity_mutex);
  kernels.clear();
  profiler_listens = true;
}

// The operators of this thread, innermost last, by the profiler's numbers.
std::vector<uint64_t>& correlations() {
  static thread_local std::vector<uint64_t> ids;
  return ids;
}

struct Session final : libkineto::IActivityProfilerSession {
  void start() override {
    begin_recording_kernels();
  }
  void stop() override {
    profiler_listens = false;
  }
  std::vector<std::string> errors() override {
    return {};
  }
  void processTrace(libkineto::ActivityLogger& logger) override {
    processTrace(logger, [](int32_t) { return nullptr; }, 0, INT64_MAX);
  }
  void processTrace(
      libkineto::ActivityLogger& logger,
      libkineto::getLinkedActivityCallback linked,
      int64_t from,
      int64_t until) override {
    const std::lock_guard<std::mutex> lock(activity_mutex);
    trace_ = std::make_unique<libkineto::CpuTraceBuffer>();
    trace_->span = libkineto::TraceSpan(from, until, type_name());
    trace_->gpuOpCount = 0;
    for (const auto& kernel : kernels) {
      if (kernel.start >= from && kernel.end <= until) {
        add(kernel, linked(static_cast<int32_t>(kernel.correlation)));
        trace_->activities.back()->log(logger);
      }
    }
  }
  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    return nullptr; // it supports only one device
  }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override {
    const std::lock_guard<std::mutex> lock(activity_mutex);
    std::set<std::pair<int64_t, int64_t>> seen;
    std::vector<libkineto::ResourceInfo> streams;
    for (const auto& kernel : kernels) {
      if (seen.emplace(kernel.device, kernel.stream).second) {
        streams.push_back(
            {kernel.stream,
             kernel.stream,
             kernel.device,
             c10::str(
                 type_name(), ":", static_cast<int>(kernel.device), " stream ", kernel.stream)});
      }
    }
    return streams;
  }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override {
    return std::move(trace_);
  }
  void pushCorrelationId(uint64_t id) override {
    correlations().push_back(id);
  }
  void popCorrelationId() override {
    if (!correlations().empty()) {
      correlations().pop_back();
    }
  }

 private:
  void add(const ProfiledKernel& kernel, const libkineto::ITraceActivity* within) {
    trace_->emplace_activity(trace_->span, ActivityType::CONCURRENT_KERNEL, kernel.name);
    auto& activity = *trace_->activities.back();
    activity.startTime = kernel.start;
    activity.endTime = kernel.end;
    activity.id = static_cast<int32_t>(kernel.correlation);
    activity.device = kernel.device;
    activity.resource = static_cast<int32_t>(kernel.stream);
    activity.flow.id = static_cast<uint32_t>(kernel.correlation);
    activity.flow.type = libkineto::kLinkAsyncCpuGpu;
    activity.flow.start = false;
    activity.linked = within;
    activity.addMetadata("device", std::to_string(kernel.device));
    activity.addMetadata("stream", std::to_string(kernel.stream));
    activity.addMetadata("correlation", std::to_string(kernel.correlation));
    ++trace_->gpuOpCount;
  }

  std::unique_ptr<libkineto::CpuTraceBuffer> trace_;
};

struct Profiler final : libkineto::IActivityProfiler {
  using Types = std::set<ActivityType>;
  using Made = std::unique_ptr<libkineto::IActivityProfilerSession>;

  const std::string& name() const override {
    static const std::string name = "northbridge_simulated_chip";
    return name;
  }
  const Types& availableActivities() const override {
    static const Types types{ActivityType::CONCURRENT_KERNEL};
    return types;
  }
  Made configure(const Types& types, const libkineto::Config&) override {
    return types.count(ActivityType::CONCURRENT_KERNEL) ? std::make_unique<Session>() : nullptr;
  }
  Made configure(
      int64_t, int64_t, const Types& types, const libkineto::Config& config) override {
    return configure(types, config);
  }
};

// Torch has this extension point only for PrivateUse1.
[[maybe_unused]] const bool profiler_registered = [] {
  if constexpr (kDeviceType == c10::DeviceType::PrivateUse1) {
    torch::profiler::impl::PrivateUse1ProfilerRegistry::instance().registerFactory(
        [] { return std::make_unique<Profiler>(); });
    return true;
  }
  return false;
}();

} // namespace

int64_t Activity::now() {
  return c10::getTime();
}

void Activity::keep(
    const std::string& name, const std::string& overload, const c10::Stream& stream) const {
  const auto end = now();
  constexpr std::string_view aten = "aten::";
  const auto short_name = name.compare(0, aten.size(), aten) == 0 ? name.substr(aten.size()) : name;
  const auto& within = correlations();
  ProfiledKernel kernel{
      c10::str(type_name(), "::", short_name, overload.empty() ? "" : ".", overload),
      start_,
      end,
      within.empty() ? 0 : within.back(),
      stream.device_index(),
      stream.id()};
  const std::lock_guard<std::mutex> lock(activity_mutex);
  kernels.push_back(std::move(kernel));
}

// For a vendor's own profiler, whose kernels do not go through torch's.
void bind_profiling(py::module_& m) {
  m.def("record_kernels", begin_recording_kernels);
  m.def("recorded_kernels", [] {
    using Row = std::tuple<std::string, int64_t, int64_t, int, int64_t>;
    const std::lock_guard<std::mutex> lock(activity_mutex);
    profiler_listens = false;
    std::vector<Row> rows;
    rows.reserve(kernels.size());
    for (const auto& kernel : kernels) {
      const auto device = static_cast<int>(kernel.device);
      rows.emplace_back(kernel.name, kernel.start, kernel.end, device, kernel.stream);
    }
    kernels.clear();
    return rows;
  });
}

} // namespace chip
