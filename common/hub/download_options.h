// What a caller of a download says, and what it is told meanwhile.
#ifndef COXSWAIN_COMMON_HUB_DOWNLOAD_OPTIONS_H_
#define COXSWAIN_COMMON_HUB_DOWNLOAD_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace coxswain::hub {

struct Progress {
  int64_t bytes = 0;  // that are there, of all that are wanted
  int64_t bytes_total = 0;
  int64_t files = 0;
  int64_t files_total = 0;
  double bytes_per_second = 0;  // from the network, over the last seconds
  bool waits = false;           // for another process, which downloads what is left
};

struct DownloadOptions {
  std::vector<std::string> include = {};  // patterns (file_selection.h); empty: what training needs
  std::function<bool()> cancelled = {};   // asked ten times a second
  // At most ten times a second, and at the end. On the caller's thread, as everything here.
  std::function<void(const Progress& progress)> progress = {};
};

}  // namespace coxswain::hub

#endif  // COXSWAIN_COMMON_HUB_DOWNLOAD_OPTIONS_H_
