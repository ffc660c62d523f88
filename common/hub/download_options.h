// What a caller of a download says, what it is told meanwhile, and which files are meant.
#ifndef COXSWAIN_COMMON_HUB_DOWNLOAD_OPTIONS_H_
#define COXSWAIN_COMMON_HUB_DOWNLOAD_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/hub/api/repository.h"
#include "common/hub/api/repository_listing.h"

namespace coxswain::hub {

// What a caller of a download says, and what it is told meanwhile.
struct Progress {
  int64_t bytes = 0;  // that are there, of all that are wanted
  int64_t bytes_total = 0;
  int64_t files = 0;
  int64_t files_total = 0;
  double bytes_per_second = 0;  // from the network, over the last seconds
  bool waits = false;           // for another process, which downloads what is left
};

struct DownloadOptions {
  std::vector<std::string> include =
      {};  // patterns (download_options.h); empty: what training needs
  std::function<bool()> cancelled = {};  // asked ten times a second
  // At most ten times a second, and at the end. On the caller's thread, as everything here.
  std::function<void(const Progress& progress)> progress = {};
};

// Which files of a repository are fetched.

// Of `files`, in their order:
//
// - With `include`, those that match one of its patterns. * and ? match slashes too, and "folder/"
//   is "folder/*", as huggingface_hub has it.
// - Of a dataset all.
// - Of a model what training and exports read: configuration, tokenizer and chat templates, and the
//   weights, all of the first folder. Weights are model.safetensors or its shards, else another
//   *.safetensors, else pytorch_model.bin or its shards; an adapter's own beside them.
//
// NotFound names the repository where none is left, and files that it has.
absl::StatusOr<std::vector<HubFile>> SelectFiles(const Repository& repository,
                                                 const std::vector<std::string>& include,
                                                 const std::vector<HubFile>& files);

// The pattern that matches `path` alone.
std::string PatternOf(const std::string& path);

}  // namespace coxswain::hub

#endif  // COXSWAIN_COMMON_HUB_DOWNLOAD_OPTIONS_H_
