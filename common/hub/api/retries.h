// When a request that failed is tried again.
#ifndef COXSWAIN_COMMON_HUB_API_RETRIES_H_
#define COXSWAIN_COMMON_HUB_API_RETRIES_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <utility>

#include "common/hub/api/http_calls.h"
#include "common/hub/api/hub_settings.h"

namespace coxswain::hub {

// Of one request. Connections that break, bodies that are cut short, 408, 429 and 5xx pass; every
// other failure stays.
class Retries {
 public:
  explicit Retries(const Limits& limits) : limits_(limits) {}

  void BytesCame() { failures_ = 0; }
  // How long to wait before the next attempt, whatever failed. Nothing: it was the last one.
  std::optional<std::chrono::milliseconds> Again();
  int failures() const { return failures_; }  // since bytes came
  // The same after `end`. Nothing also: `end` stays, or the server asks for more than
  // Limits::longest_wait.
  std::optional<std::chrono::milliseconds> After(const HttpEnd& end);

 private:
  Limits limits_;
  int failures_ = 0;
};

// Sleeps for `time`; false as soon as `cancelled` (may be empty) says so.
bool Pause(std::chrono::milliseconds time, const std::function<bool()>& cancelled);

// How fast bytes come.

// The mean over the last seconds, so that a pause is seen and a burst is not taken for the rate.
class RateMeter {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `bytes` in all have come until `now`.
  void Add(int64_t bytes, Time now) {
    samples_.push_back({now, bytes});
    while (samples_.size() > 2 && now - samples_[1].first >= kSpan) samples_.pop_front();
  }
  double BytesPerSecond() const {
    if (samples_.size() < 2) return 0;
    const std::chrono::duration<double> time = samples_.back().first - samples_.front().first;
    const auto bytes = static_cast<double>(samples_.back().second - samples_.front().second);
    return time.count() > 0 ? bytes / time.count() : 0;
  }

 private:
  static constexpr std::chrono::seconds kSpan{5};
  std::deque<std::pair<Time, int64_t>> samples_;
};

}  // namespace coxswain::hub

#endif  // COXSWAIN_COMMON_HUB_API_RETRIES_H_
