#include "common/hub/download_options.h"

#include <fnmatch.h>

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/outside_text.h"

namespace coxswain::hub {
namespace {

constexpr size_t kFilesShown = 5;

using Patterns = std::vector<std::string>;

bool MatchesOne(const Patterns& patterns, const std::string& path) {
  return std::any_of(patterns.begin(), patterns.end(), [&](std::string pattern) {
    if (pattern.ends_with('/')) pattern += '*';
    return fnmatch(pattern.c_str(), path.c_str(), 0) == 0;
  });
}

// In the first folder of the repository.
bool MatchesTop(const Patterns& patterns, const HubFile& file) {
  return file.path.find('/') == std::string::npos && MatchesOne(patterns, file.path);
}

bool AnyTop(const std::vector<HubFile>& files, const Patterns& patterns) {
  return std::any_of(files.begin(), files.end(),
                     [&](const HubFile& file) { return MatchesTop(patterns, file); });
}

// The first of these that the repository has; it may have the same weights in several forms.
Patterns WeightsOf(const std::vector<HubFile>& files) {
  const Patterns named = {"model.safetensors", "model-*.safetensors"};
  const Patterns pickled = {"pytorch_model.bin", "pytorch_model-*.bin", "adapter_model.bin"};
  if (AnyTop(files, named)) return named;
  if (AnyTop(files, {"adapter_model.safetensors"})) return {};
  if (AnyTop(files, {"*.safetensors"})) return {"*.safetensors"};
  return pickled;
}

bool IsOfModel(const Patterns& weights, const HubFile& file) {
  static const auto* const kTop =
      new Patterns{"*.json",     "*.jinja", "*.model",   "*.tiktoken", "vocab.txt",
                   "merges.txt", "LICENSE", "LICENSE.*", "NOTICE",     "adapter_model.safetensors"};
  return MatchesTop(*kTop, file) || MatchesTop(weights, file) ||
         MatchesOne({"additional_chat_templates/*.jinja"}, file.path);
}

absl::Status NoneLeft(const Repository& repository, const Patterns& include,
                      const std::vector<HubFile>& files) {
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(files.size(), kFilesShown); ++i) {
    names.push_back(OneLine(files[i].path, kMostNameBytes));
  }
  const std::string wanted = include.empty() ? "of a model that can be trained"
                                             : "that matches " + absl::StrJoin(include, ", ");
  const std::string has =
      names.empty()
          ? "nothing"
          : absl::StrCat(absl::StrJoin(names, ", "), files.size() > kFilesShown ? " and more" : "");
  return absl::NotFoundError(absl::StrCat(NameOf(repository), " at ", repository.revision,
                                          " has no file ", wanted, "; it has ", has));
}

}  // namespace

absl::StatusOr<std::vector<HubFile>> SelectFiles(const Repository& repository,
                                                 const std::vector<std::string>& include,
                                                 const std::vector<HubFile>& files) {
  const Patterns weights = WeightsOf(files);
  std::vector<HubFile> selected;
  for (const HubFile& file : files) {
    const bool wanted = !include.empty() ? MatchesOne(include, file.path)
                        : repository.type == RepositoryType::kDataset ? true
                                                                      : IsOfModel(weights, file);
    if (wanted) selected.push_back(file);
  }
  if (selected.empty()) return NoneLeft(repository, include, files);
  return selected;
}

std::string PatternOf(const std::string& path) {
  std::string pattern;
  for (const char c : path) {
    if (c == '*' || c == '?' || c == '[' || c == '\\') pattern += '\\';
    pattern += c;
  }
  return pattern;
}

}  // namespace coxswain::hub
