// What this machine gives a process: CPUs, memory, and the folders of its user.
#ifndef COXSWAIN_COMMON_HOST_H_
#define COXSWAIN_COMMON_HOST_H_

#include <cstdint>
#include <string>

namespace coxswain {

// What of this machine a process may use.

int UsableCpus();  // CPUs this process may run on, >= 1

// Bytes this process may use: the smaller of the machine's memory and its cgroup's limit.
uint64_t MemoryLimitBytes();
// What `workers` processes of one host may each plan with: an equal part of 80 %; the rest is for
// the page cache, libraries and the controller.
uint64_t PlannableBytes(int workers);

// Where a user's programs keep files: the XDG base directories.

std::string StateDir();   // $XDG_STATE_HOME/coxswain, else ~/.local/state/coxswain: of `cox up`
std::string ConfigDir();  // $XDG_CONFIG_HOME/coxswain, else ~/.config/coxswain: what users choose
std::string CacheDir();   // $XDG_CACHE_HOME/coxswain, else ~/.cache/coxswain: may be deleted

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_HOST_H_
