// How hard the client of the Hub tries.
#ifndef COXSWAIN_COMMON_HUB_API_LIMITS_H_
#define COXSWAIN_COMMON_HUB_API_LIMITS_H_

#include <chrono>
#include <cstdint>

namespace coxswain::hub {

struct Limits {
  int connections = 8;  // at a time, over all files of a download or a push
  // A file is fetched in pieces of so many bytes, which connections share.
  int64_t piece_bytes = int64_t{32} << 20;
  std::chrono::milliseconds connect{10'000};
  std::chrono::seconds stall{30};  // without a byte
  std::chrono::seconds work{300};  // likewise, until a question that sends something is answered
  // Of one request in a row, without a byte between them.
  int attempts = 6;
  // Before the second attempt; doubled before each further one, up to longest_delay.
  std::chrono::milliseconds first_delay{1'000};
  std::chrono::milliseconds longest_delay{30'000};
  // A server that asks for more patience (Retry-After) is not waited for.
  std::chrono::seconds longest_wait{600};
};

}  // namespace coxswain::hub

#endif  // COXSWAIN_COMMON_HUB_API_LIMITS_H_
