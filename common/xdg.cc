#include "common/xdg.h"

#include <cstdlib>

namespace coxswain {
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
