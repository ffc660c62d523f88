#include "controller/cli/import/detect_tool.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/foreign_keys/key_tables.h"

namespace coxswain::job_import {
namespace {

using foreign_keys::Tool;

// Keys that a usable file of the tool has, and no file of another.
constexpr std::pair<std::string_view, Tool> kTelling[] = {
    {"base_model", Tool::kAxolotl},
    {"sequence_len", Tool::kAxolotl},
    {"sample_packing", Tool::kAxolotl},
    {"stage", Tool::kLlamaFactory},
    {"finetuning_type", Tool::kLlamaFactory},
    {"template", Tool::kLlamaFactory},
    {"cutoff_len", Tool::kLlamaFactory},
    {"dataset", Tool::kLlamaFactory},
    {"train_dataset", Tool::kLlamaFactory},
    {"dataset_name", Tool::kTrl},
    {"use_peft", Tool::kTrl},
    {"dataset_train_split", Tool::kTrl},
    {"max_length", Tool::kTrl},
    {"dataset_text_field", Tool::kTrl},
    {"assistant_only_loss", Tool::kTrl},
    {"completion_only_loss", Tool::kTrl},
};

constexpr const char* kHelp =
    "base_model and sequence_len tell Axolotl, stage and finetuning_type LLaMA-Factory, "
    "dataset_name and use_peft TRL; or say --from";

}  // namespace

absl::StatusOr<Tool> DetectTool(const config::Node& root) {
  std::vector<std::pair<std::string_view, Tool>> found;
  for (const config::Entry& entry : root.entries) {
    for (const auto& row : kTelling) {
      if (row.first == entry.key) found.push_back(row);
    }
    if (entry.key == "apiVersion") {
      return absl::InvalidArgumentError("this is a job of ours already: it has apiVersion");
    }
  }
  if (found.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("its keys tell no tool: ", kHelp));
  }
  for (const auto& [key, tool] : found) {
    if (tool == found[0].second) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        std::string(found[0].first), " is a key of ",
        std::string(foreign_keys::ToolName(found[0].second)), " and ", std::string(key), " of ",
        std::string(foreign_keys::ToolName(tool)), ": ", kHelp));
  }
  return found[0].second;
}

}  // namespace coxswain::job_import
