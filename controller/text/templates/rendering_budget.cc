#include "controller/text/templates/rendering_budget.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace coxswain::data {
namespace {

// The steps of one rendering are used up sooner: what takes longer is a machine that pauses.
constexpr std::chrono::nanoseconds kLongest = std::chrono::seconds(10);

}  // namespace

absl::Status RenderingBudget::Charge(std::chrono::nanoseconds took, int64_t bytes) {
  const int64_t renderings = ++renderings_;
  const std::chrono::nanoseconds all_took(took_ns_ += std::min(took, kLongest).count());
  const int64_t all_bytes = bytes_ += bytes;
  const std::chrono::nanoseconds most_time = kTime + kTimeOfOne * renderings;
  const int64_t most_bytes = kBytes + kBytesOfOne * renderings;
  if (all_took <= most_time && all_bytes <= most_bytes) return absl::OkStatus();
  const auto seconds = [](std::chrono::nanoseconds time) {
    return std::chrono::duration_cast<std::chrono::seconds>(time).count();
  };
  return absl::FailedPreconditionError(absl::StrCat(
      "the chat template took ", seconds(all_took), " s and wrote ", all_bytes, " bytes for the ",
      renderings, " renderings of its dataset so far; at most ", seconds(most_time), " s and ",
      most_bytes, " bytes are given to so many. Give another chat_template"));
}

}  // namespace coxswain::data
