// Tells names of the Hub and URLs from paths, where a job may write any of them.
#ifndef COXSWAIN_COMMON_CONFIG_NAMED_SOURCES_H_
#define COXSWAIN_COMMON_CONFIG_NAMED_SOURCES_H_

#include <string>
#include <string_view>

#include "common/config/yaml_tree.h"

namespace coxswain::config {

// How a file is named that a user brought to the controller: "upload://SHA256/NAME".
inline constexpr std::string_view kUploadScheme = "upload://";

// Whether `text` has the form "org/name", and no ending of a data file. Looks at no file.
bool ReadsAsHubId(const std::string& text);

// Renames the key `path` of base_model, datasets and test_datasets to `hub` where its value is the
// id of a repository, and to `url` where it begins with https:// or upload://. What exists below
// `base_dir` stays a path, whatever it looks like; with an empty `base_dir` (the files are
// elsewhere) only absolute paths are looked for. Lines stay as they are.
void NameSources(const std::string& base_dir, Node* root);

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_NAMED_SOURCES_H_
