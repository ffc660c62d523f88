// Identity of this build: what Register compares and coxswain_build_info shows.
#ifndef COXSWAIN_COMMON_BUILD_INFO_H_
#define COXSWAIN_COMMON_BUILD_INFO_H_

#include <cstdint>
#include <string_view>

namespace coxswain {

// Number of the wire protocol: +1 whenever an older peer would misread a message.
inline constexpr uint32_t kWireProtocol = 1;

std::string_view BuildVersion();  // release, e.g. "0.1.0"
std::string_view BuildCommit();   // revision at configure time, "unknown" outside a checkout

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_BUILD_INFO_H_
