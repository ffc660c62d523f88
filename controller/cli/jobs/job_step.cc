#include "controller/cli/jobs/job_step.h"

#include <charconv>

namespace coxswain::cli {

JobStep SplitStep(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {text};
  int64_t step = -1;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data() + colon + 1, end, step);
  if (error != std::errc() || at != end) return {text};
  return {text.substr(0, colon), step};
}

}  // namespace coxswain::cli
