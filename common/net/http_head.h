// The head of an HTTP request, read up to a bound before anything parses it.
#ifndef COXSWAIN_COMMON_NET_HTTP_HEAD_H_
#define COXSWAIN_COMMON_NET_HTTP_HEAD_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace coxswain {

inline constexpr size_t kMaxHttpHeadBytes = size_t{16} << 10;
inline constexpr size_t kMaxHttpHeaders = 100;

// Waits until `socket` can be read, or with `for_writing` written; false: not within `wait_ms`, or
// it is closed.
bool WaitForSocket(int socket, bool for_writing, int wait_ms);

// The request line and the headers, with the empty line behind them and what came with it. Whoever
// connects and says nothing is given up after a second, a head that is not whole after five
// (DeadlineExceeded); ResourceExhausted: it has more bytes or headers than the bounds. Unavailable:
// the other side is gone.
absl::StatusOr<std::string> ReadHttpHead(int socket);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_NET_HTTP_HEAD_H_
