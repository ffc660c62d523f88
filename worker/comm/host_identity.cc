#include "worker/comm/host_identity.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace coxswain::comm {

std::string BootId() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

std::string NcclHost() {
  if (const char* id = std::getenv("NCCL_HOSTID"); id != nullptr && *id != '\0') return id;
  char name[256] = {};
  (void)gethostname(name, sizeof(name) - 1);
  return std::string(name) + " " + BootId();
}

}  // namespace coxswain::comm
