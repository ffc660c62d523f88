// How fast bytes come.
#ifndef COXSWAIN_COMMON_HUB_API_RATE_METER_H_
#define COXSWAIN_COMMON_HUB_API_RATE_METER_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <utility>

namespace coxswain::hub {

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

#endif  // COXSWAIN_COMMON_HUB_API_RATE_METER_H_
