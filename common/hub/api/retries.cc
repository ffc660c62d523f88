#include "common/hub/api/retries.h"

#include <algorithm>
#include <thread>

namespace coxswain::hub {
namespace {

using std::chrono::milliseconds;

bool Passes(const HttpEnd& end) {
  if (!end.refused.ok() || end.stays) return false;
  const int status = end.head.status;
  return !end.failure.empty() || status == 408 || status == 429 || status / 100 == 5;
}

}  // namespace

std::optional<milliseconds> Retries::After(const HttpEnd& end) {
  if (!Passes(end) || end.retry_after > limits_.longest_wait) return std::nullopt;
  const std::optional<milliseconds> delay = Again();
  if (!delay) return std::nullopt;
  return std::max<milliseconds>(*delay, end.retry_after);
}

std::optional<milliseconds> Retries::Again() {
  if (++failures_ >= limits_.attempts) return std::nullopt;
  milliseconds delay = limits_.first_delay;
  for (int i = 1; i < failures_ && delay < limits_.longest_delay; ++i) delay *= 2;
  return std::min(delay, limits_.longest_delay);
}

bool Pause(milliseconds time, const std::function<bool()>& cancelled) {
  constexpr milliseconds kStep{50};
  for (; time.count() > 0; time -= kStep) {
    if (cancelled && cancelled()) return false;
    std::this_thread::sleep_for(std::min(time, kStep));
  }
  return !cancelled || !cancelled();
}

}  // namespace coxswain::hub
