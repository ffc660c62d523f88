// Who a process is: the identifiers that it draws, and the build that it is of.
#ifndef COXSWAIN_COMMON_IDENTITY_H_
#define COXSWAIN_COMMON_IDENTITY_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace coxswain {

// Identifiers drawn at run time.

std::string NewUuid();              // RFC 4122 version 4, from the operating system's entropy
std::string RandomHex(int digits);  // lower case

// Identity of this build: what Register compares and coxswain_build_info shows.

// Number of the wire protocol: +1 whenever an older peer would misread a message.
inline constexpr uint32_t kWireProtocol = 1;

std::string_view BuildVersion();  // release, e.g. "0.1.0"
std::string_view BuildCommit();   // revision at configure time, "unknown" outside a checkout

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_IDENTITY_H_
