#include "common/identity.h"

#include <sys/random.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace coxswain {

std::string RandomHex(int digits) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex(digits, '0');
  for (int done = 0; done < digits;) {
    unsigned char bytes[32];
    const ssize_t n = getrandom(bytes, sizeof(bytes), 0);
    if (n < 0) {
      if (errno == EINTR) continue;
      std::perror("coxswain: getrandom");  // no entropy, no identity: nothing can go on
      std::abort();
    }
    for (ssize_t i = 0; i < n && done < digits; ++i) hex[done++] = kDigits[bytes[i] & 15];
  }
  return hex;
}

// Source: RFC 4122 section 4.4.
std::string NewUuid() {
  static constexpr char kVariant[] = "89ab";
  std::string uuid = RandomHex(36);
  const char variant = uuid[19];
  uuid[8] = uuid[13] = uuid[18] = uuid[23] = '-';
  uuid[14] = '4';
  uuid[19] = kVariant[(variant >= 'a' ? variant - 'a' + 10 : variant - '0') & 3];
  return uuid;
}

std::string_view BuildVersion() { return COXSWAIN_BUILD_VERSION; }
std::string_view BuildCommit() { return COXSWAIN_BUILD_COMMIT; }

}  // namespace coxswain
