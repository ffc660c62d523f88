// When a request that failed is tried again.
#ifndef COXSWAIN_COMMON_HUB_API_RETRIES_H_
#define COXSWAIN_COMMON_HUB_API_RETRIES_H_

#include <chrono>
#include <functional>
#include <optional>

#include "common/hub/api/http_calls.h"
#include "common/hub/api/limits.h"

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

}  // namespace coxswain::hub

#endif  // COXSWAIN_COMMON_HUB_API_RETRIES_H_
