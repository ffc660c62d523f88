// An export as a repository of the Hub shows it.
#ifndef COXSWAIN_CONTROLLER_EXPORT_PUSHED_FOLDER_H_
#define COXSWAIN_CONTROLLER_EXPORT_PUSHED_FOLDER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace coxswain::exports {

// The files of an export that are pushed: hub::FilesOf, without the manifest, which tells of the
// files on this disk. InvalidArgument: there is no adapter_config.json and no config.json.
absl::StatusOr<std::vector<std::string>> FilesToPush(const std::string& folder);

// A model card for a folder without one: the library that loads it, and of an adapter its base,
// where adapter_config.json has the base's Hub id. Source: the Hub's documentation, "Model Cards".
std::string ModelCard(const std::string& folder);

// The absolute path by which adapter_config.json names the base; empty: it names it otherwise.
std::string BaseByPath(const std::string& folder);

}  // namespace coxswain::exports

#endif  // COXSWAIN_CONTROLLER_EXPORT_PUSHED_FOLDER_H_
