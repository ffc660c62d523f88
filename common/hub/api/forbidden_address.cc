#include "common/hub/api/forbidden_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"

namespace coxswain::hub {
namespace {

using Bytes = std::array<uint8_t, 16>;  // of IPv6; IPv4 as mapped

constexpr Bytes kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr Bytes kNat64 = {0, 0x64, 0xff, 0x9b};
constexpr size_t kBeforeIpv4 = 12;  // bytes

std::optional<Bytes> BytesOf(const sockaddr& address) {
  Bytes bytes = kMapped;
  if (address.sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address).sin_addr;
    std::memcpy(bytes.data() + kBeforeIpv4, &v4, sizeof(v4));
    return bytes;
  }
  if (address.sa_family != AF_INET6) return std::nullopt;
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  std::memcpy(bytes.data(), &v6, sizeof(v6));
  // ::1 and :: are addresses of IPv6; the rest of ::/96 holds one of IPv4.
  const bool compatible = std::all_of(bytes.begin(), bytes.begin() + kBeforeIpv4,
                                      [](uint8_t byte) { return byte == 0; }) &&
                          (bytes[12] != 0 || bytes[13] != 0 || bytes[14] != 0);
  if (compatible || std::equal(kNat64.begin(), kNat64.begin() + kBeforeIpv4, bytes.begin())) {
    std::copy_n(kMapped.begin(), kBeforeIpv4, bytes.begin());
  }
  return bytes;
}

bool IsIpv4(const Bytes& bytes) {
  return std::equal(kMapped.begin(), kMapped.begin() + kBeforeIpv4, bytes.begin());
}

std::string TextOf(const Bytes& bytes) {
  char text[INET6_ADDRSTRLEN] = "";
  if (IsIpv4(bytes)) {
    inet_ntop(AF_INET, bytes.data() + kBeforeIpv4, text, sizeof(text));
  } else {
    inet_ntop(AF_INET6, bytes.data(), text, sizeof(text));
  }
  return text;
}

bool IsLoopback(const Bytes& bytes) {
  return IsIpv4(bytes) ? bytes[12] == 127
                       : bytes == Bytes{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
}

bool IsUnspecified(const Bytes& bytes) { return IsIpv4(bytes) ? bytes[12] == 0 : bytes == Bytes{}; }

bool IsLinkLocal(const Bytes& bytes) {
  if (IsIpv4(bytes)) return bytes[12] == 169 && bytes[13] == 254;
  return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

// Asked anew: addresses come and go.
bool IsOfAnInterface(const Bytes& bytes) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return false;
  bool found = false;
  for (const ifaddrs* one = all; one != nullptr && !found; one = one->ifa_next) {
    found = one->ifa_addr != nullptr && BytesOf(*one->ifa_addr) == bytes;
  }
  freeifaddrs(all);
  return found;
}

}  // namespace

std::string ForbiddenAddress(const sockaddr& address, bool own_machine) {
  const std::optional<Bytes> bytes = BytesOf(address);
  if (!bytes) return "it leads to no address of IPv4 or IPv6";
  if (IsLinkLocal(*bytes)) return absl::StrCat(TextOf(*bytes), " is a link-local address");
  if (IsLoopback(*bytes) && own_machine) return "";
  if (IsUnspecified(*bytes) || IsLoopback(*bytes) || IsOfAnInterface(*bytes)) {
    return absl::StrCat(TextOf(*bytes), " is an address of this machine");
  }
  return "";
}

}  // namespace coxswain::hub
