// Waiting, within bounds, for what other threads or processes do.
#ifndef COXSWAIN_TESTS_SUPPORT_EVENTUALLY_H_
#define COXSWAIN_TESTS_SUPPORT_EVENTUALLY_H_

#include <chrono>
#include <functional>

namespace coxswain::support {

// How long a test waits for what ought to come at once: a busy machine is not a failure.
inline constexpr std::chrono::seconds kTestDeadline{60};

// Polls `condition`; false when it does not hold within `limit`.
bool Eventually(const std::function<bool()>& condition, std::chrono::seconds limit = kTestDeadline);

}  // namespace coxswain::support

#endif  // COXSWAIN_TESTS_SUPPORT_EVENTUALLY_H_
