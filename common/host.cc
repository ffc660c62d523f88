#include "common/host.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

namespace coxswain {
namespace {

// The number in a one-line file; `fallback` when it is absent or not a number ("max").
uint64_t NumberIn(const char* path, uint64_t fallback) {
  std::ifstream in(path);
  uint64_t number = 0;
  return in >> number ? number : fallback;
}

}  // namespace

int UsableCpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

uint64_t MemoryLimitBytes() {
  const uint64_t machine =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return std::min({machine, NumberIn("/sys/fs/cgroup/memory.max", machine),
                   NumberIn("/sys/fs/cgroup/memory/memory.limit_in_bytes", machine)});
}

uint64_t PlannableBytes(int workers) {
  return MemoryLimitBytes() / 10 * 8 / static_cast<uint64_t>(std::max(1, workers));
}

namespace {

std::string XdgDir(const char* variable, const char* below_home) {
  const char* base = std::getenv(variable);
  if (base != nullptr && base[0] == '/') return std::string(base) + "/coxswain";
  const char* home = std::getenv("HOME");
  const bool homeless = home == nullptr || *home == '\0';
  return std::string(homeless ? "/tmp" : home) + "/" + below_home + "/coxswain";
}

}  // namespace

std::string StateDir() { return XdgDir("XDG_STATE_HOME", ".local/state"); }
std::string ConfigDir() { return XdgDir("XDG_CONFIG_HOME", ".config"); }
std::string CacheDir() { return XdgDir("XDG_CACHE_HOME", ".cache"); }

}  // namespace coxswain
