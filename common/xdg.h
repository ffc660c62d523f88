// Where a user's programs keep files: the XDG base directories.
#ifndef COXSWAIN_COMMON_XDG_H_
#define COXSWAIN_COMMON_XDG_H_

#include <string>

namespace coxswain {

std::string StateDir();   // $XDG_STATE_HOME/coxswain, else ~/.local/state/coxswain: of `cox up`
std::string ConfigDir();  // $XDG_CONFIG_HOME/coxswain, else ~/.config/coxswain: what users choose
std::string CacheDir();   // $XDG_CACHE_HOME/coxswain, else ~/.cache/coxswain: may be deleted

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_XDG_H_
