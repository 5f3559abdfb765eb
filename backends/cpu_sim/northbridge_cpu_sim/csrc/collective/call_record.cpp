#include "collective/call_record.h"

#include "collective/missing_ranks.h"

#include <c10/util/Exception.h>

#include <chrono>
#include <new>
#include <thread>

namespace chip {
namespace {

constexpr int kLooks = 50;
constexpr std::chrono::milliseconds kBetweenLooks(20);

std::string text_of(const std::exception& error) {
  const auto* torchs = dynamic_cast<const c10::Error*>(&error);
  return torchs != nullptr ? torchs->what_without_backtrace() : error.what();
}

template <typename Error>
std::exception_ptr error_with(std::string text) {
  return std::make_exception_ptr(Error({__func__, __FILE__, __LINE__}, std::move(text)));
}

} // namespace

CallRecord::CallRecord(std::shared_ptr<GroupState> group, const Call& call)
    : group_(std::move(group)),
      series_(call.is_point_to_point ? Board::Series::point_to_point : kCollective) {
  line_.number = ++group_->count_of(call);
  line_.signature = CallSignature::of(call);
}

void CallRecord::post() const noexcept {
  group_->roster.own_board().post(series_, line_.number, line_.signature);
}

void CallRecord::finish() const noexcept {
  group_->roster.own_board().mark(series_, line_.number, Progress::finished);
}

std::exception_ptr CallRecord::refused(const std::exception_ptr& error) const {
  group_->roster.own_board().mark(series_, line_.number, Progress::failed);
  try {
    std::rethrow_exception(error);
  } catch (const c10::ValueError& reason) {
    return error_with<c10::ValueError>(beginning() + " failed: " + text_of(reason));
  } catch (const std::exception& reason) {
    return error_with<c10::DistBackendError>(beginning() + " failed: " + text_of(reason));
  }
}

std::exception_ptr CallRecord::failed(const std::exception_ptr& error) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (failure_) {
    return failure_;
  }
  auto& board = group_->roster.own_board();
  std::string reason;
  try {
    std::rethrow_exception(error);
  } catch (const Explained& all) {
    board.mark(series_, line_.number, Progress::failed);
    failure_ = error_with<c10::DistBackendError>(beginning() + " failed: " + all.what());
    return failure_;
  } catch (const std::exception& other) {
    reason = text_of(other);
  }
  const bool timed_out = reason.find("imed out") != std::string::npos;
  const auto find = [&] {
    return find_missing(group_->facts, group_->roster, series_, line_, timed_out);
  };
  auto missing = find();
  // A killed process loses its connections before it is gone.
  for (int look = 0; look < kLooks && !timed_out && missing.findings.empty(); ++look) {
    std::this_thread::sleep_for(kBetweenLooks);
    missing = find();
  }
  board.mark(series_, line_.number, Progress::failed, missing.blamed);
  std::string text = beginning() + " failed: ";
  for (const auto& finding : missing.findings) {
    text += finding + "; ";
  }
  text += c10::str("this was ", whole_call(), " (", reason, ")");
  auto named = error_with<c10::DistBackendError>(std::move(text));
  // If only the caller's time limit was exceeded, the call may still succeed.
  if (reason.find("Operation timed out!") == std::string::npos) {
    failure_ = named;
  }
  return named;
}

bool CallRecord::has_failed() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return failure_ != nullptr;
}

std::string CallRecord::beginning() const {
  const auto& facts = group_->facts;
  return c10::str(facts.library, "'s ", line_.signature.name, " on ", facts.here_in_words());
}

std::string CallRecord::whole_call() const {
  const char* kind = series_ == kCollective ? "call #" : "send or receive #";
  return c10::str(
      kind, line_.number, " of ", group_->facts.in_words(), ", ",
      line_.signature.in_words(group_->facts));
}

} // namespace chip
