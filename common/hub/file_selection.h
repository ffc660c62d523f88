// Which files of a repository are fetched.
#ifndef COXSWAIN_COMMON_HUB_FILE_SELECTION_H_
#define COXSWAIN_COMMON_HUB_FILE_SELECTION_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/hub/api/repository.h"
#include "common/hub/api/repository_listing.h"

namespace coxswain::hub {

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

#endif  // COXSWAIN_COMMON_HUB_FILE_SELECTION_H_
