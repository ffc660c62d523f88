#include "controller/driver/export_artifacts.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/checkpoint_tensors.h"
#include "common/durable_file.h"
#include "common/posix_status.h"
#include "common/status_macros.h"
#include "controller/driver/artifact_files.h"
#include "controller/driver/export_adapter.h"
#include "controller/driver/export_model.h"

namespace coxswain::driver {
namespace {

namespace fs = std::filesystem;

// Copied byte for byte from the base model, so that what was trained on is what is served.
const std::vector<std::string>& TokenizerFiles() {
  static const auto* files = new std::vector<std::string>{"tokenizer.json",
                                                          "tokenizer_config.json",
                                                          "special_tokens_map.json",
                                                          "vocab.json",
                                                          "merges.txt",
                                                          "added_tokens.json",
                                                          "tokenizer.model",
                                                          "chat_template.jinja",
                                                          "chat_template.json"};
  return *files;
}

// An empty staging directory beside the target, so that the final rename stays on one file system.
absl::StatusOr<std::string> EmptyStaging(const std::string& output_dir, const std::string& name) {
  const std::string staging = absl::StrCat(output_dir, "/.staging/export-", name);
  std::error_code error;
  fs::remove_all(staging, error);
  fs::remove_all(absl::StrCat(staging, ".replaced"), error);
  fs::create_directories(staging, error);
  if (error) return ErrnoStatus(error.value(), "create", staging);
  return staging;
}

absl::StatusOr<std::vector<ExportedFile>> ListFiles(const std::string& directory) {
  std::vector<ExportedFile> files;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(directory, error)) {
    if (!entry.is_regular_file()) continue;
    files.push_back(
        {fs::relative(entry.path(), directory).string(), static_cast<int64_t>(entry.file_size())});
  }
  if (error) return absl::InternalError(absl::StrCat("cannot list ", directory));
  std::sort(files.begin(), files.end(),
            [](const ExportedFile& a, const ExportedFile& b) { return a.name < b.name; });
  return files;
}

// The model card that PEFT puts beside an adapter: front matter for hubs, then what was trained.
// JSON strings are YAML strings, so that a path may hold any character.
std::string AdapterCard(const ExportRequest& request) {
  const plan::Lora& lora = request.plan.lora;
  const std::string method = absl::StrCat(request.job.lora.use_rslora ? "rsLoRA" : "LoRA",
                                          request.job.lora.loraplus_lr_ratio != 1.0 ? "+" : "",
                                          lora.dora ? " with DoRA" : "");
  return absl::StrCat(
      "---\nbase_model: ", nlohmann::json(request.plan.model_path).dump(),
      "\nlibrary_name: peft\n---\n\n# ", request.job.name, "\n\n", method, " adapter of `",
      request.plan.model_path, "` (", request.plan.model.architecture,
      "), trained by Coxswain.\n\n| setting | value |\n|---|---|\n| r | ", lora.rank,
      " |\n| alpha | ", request.job.lora.alpha, " |\n| dropout | ", lora.dropout,
      " |\n| sequence length | ", request.plan.sequence_len, " |\n| checkpoint | ",
      fs::path(request.checkpoint_dir).filename().string(), " |\n");
}

absl::Status ExportAdapter(const ExportRequest& request, const CheckpointTensors& checkpoint) {
  ASSIGN_OR_RETURN(const std::string staging, EmptyStaging(request.job.output_dir, "adapter"));
  RETURN_IF_ERROR(WriteAdapter(request.job, request.plan, checkpoint, staging));
  RETURN_IF_ERROR(WriteFileDurably(absl::StrCat(staging, "/README.md"), AdapterCard(request)));
  RETURN_IF_ERROR(CopyFilesThatExist(request.plan.model_path, staging, TokenizerFiles()));
  return ReplaceDirectory(staging, absl::StrCat(request.job.output_dir, "/adapter"));
}

absl::Status ExportModel(const ExportRequest& request, const CheckpointTensors& checkpoint) {
  ASSIGN_OR_RETURN(const std::string staging, EmptyStaging(request.job.output_dir, "model"));
  RETURN_IF_ERROR(WriteModel(request.job, request.plan, checkpoint, staging));
  RETURN_IF_ERROR(CopyFilesThatExist(request.plan.model_path, staging, TokenizerFiles()));
  RETURN_IF_ERROR(CopyFilesThatExist(request.plan.model_path, staging, {"generation_config.json"}));
  return ReplaceDirectory(staging, absl::StrCat(request.job.output_dir, "/model"));
}

}  // namespace

absl::StatusOr<ExportResult> ExportArtifacts(const ExportRequest& request) {
  ASSIGN_OR_RETURN(const CheckpointTensors checkpoint,
                   CheckpointTensors::Open(request.checkpoint_dir));
  const bool adapter = request.plan.lora.rank > 0;
  if (adapter) RETURN_IF_ERROR(ExportAdapter(request, checkpoint));
  if (!adapter || request.job.export_merge) RETURN_IF_ERROR(ExportModel(request, checkpoint));
  ExportResult result;
  result.directory = absl::StrCat(request.job.output_dir, adapter ? "/adapter" : "/model");
  ASSIGN_OR_RETURN(result.files, ListFiles(result.directory));
  return result;
}

}  // namespace coxswain::driver
