#include "common/net/http_head.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace coxswain {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A browser connects ahead of need: its thread is soon free again.
constexpr milliseconds kSilence{1000};
constexpr milliseconds kWhole{5000};

bool HasTooManyLines(const std::string& head) {
  const auto lines = std::count(head.begin(), head.end(), '\n');
  return static_cast<size_t>(lines) > kMaxHttpHeaders + 2;  // of the request, and the empty one
}

int LeftMs(steady_clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
  return static_cast<int>(std::max<milliseconds::rep>(0, left.count()));
}

}  // namespace

bool WaitForSocket(int socket, bool for_writing, int wait_ms) {
  pollfd wanted = {
      .fd = socket, .events = for_writing ? short{POLLOUT} : short{POLLIN}, .revents = 0};
  int ready = 0;
  do {
    ready = poll(&wanted, 1, wait_ms);
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

absl::StatusOr<std::string> ReadHttpHead(int socket) {
  const auto begin = steady_clock::now();
  std::string head;
  while (head.find("\r\n\r\n") == std::string::npos) {
    const auto deadline = begin + (head.empty() ? kSilence : kWhole);
    if (!WaitForSocket(socket, /*for_writing=*/false, LeftMs(deadline))) {
      return absl::DeadlineExceededError("a request whose headers did not come");
    }
    const size_t had = head.size();
    head.resize(kMaxHttpHeadBytes + 1);
    const ssize_t got = recv(socket, head.data() + had, head.size() - had, 0);
    head.resize(had + static_cast<size_t>(std::max<ssize_t>(0, got)));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return absl::UnavailableError("the client closed before its headers ended");
    if (head.size() > kMaxHttpHeadBytes || HasTooManyLines(head)) {
      return absl::ResourceExhaustedError(absl::StrCat("a request has more than ", kMaxHttpHeaders,
                                                       " headers or ", kMaxHttpHeadBytes,
                                                       " bytes of them\n"));
    }
  }
  return head;
}

}  // namespace coxswain
