#include "common/build_info.h"

namespace coxswain {

std::string_view BuildVersion() { return COXSWAIN_BUILD_VERSION; }
std::string_view BuildCommit() { return COXSWAIN_BUILD_COMMIT; }

}  // namespace coxswain
