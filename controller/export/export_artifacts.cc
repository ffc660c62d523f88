#include "controller/export/export_artifacts.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/checkpoint_tensors.h"
#include "common/fault_point.h"
#include "common/files/durable_file.h"
#include "common/status_macros.h"
#include "controller/export/artifact_files.h"
#include "controller/export/base_model_name.h"
#include "controller/export/export_adapter.h"
#include "controller/export/export_model.h"
#include "controller/export/export_tokenizer.h"
#include "controller/output_place.h"
#include "controller/replace_directory.h"

namespace coxswain::exports {
namespace {

namespace fs = std::filesystem;

// Where an export is written; beside the target, so that the final rename stays on one file system.
std::string StagingOf(const ExportRequest& request, const std::string& name) {
  return absl::StrCat(request.job.output_dir, "/.staging/export-", name, request.owner);
}

absl::Status MakeEmpty(Files* files, const std::string& directory) {
  RETURN_IF_ERROR(fault::Reach(fault::Point::kExportBegin));
  RETURN_IF_ERROR(files->RemoveAll(directory));
  return files->MakeDirs(directory);
}

absl::Status Replace(Files* files, const ExportRequest& request, const std::string& name) {
  const std::string target = absl::StrCat(request.job.output_dir, "/", name);
  return request.guard([&] {
    RETURN_IF_ERROR(CheckReplaceable(files, request.job, target));
    RETURN_IF_ERROR(fault::Reach(fault::Point::kExportRename));
    RETURN_IF_ERROR(ReplaceDirectory(files, StagingOf(request, name), target));
    return fault::Reach(fault::Point::kExportRenamed);
  });
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
// JSON strings are YAML strings, so that a name may hold any character.
std::string AdapterCard(const ExportRequest& request) {
  const plan::Lora& lora = request.plan.lora;
  const std::string base = BaseModelName(request.job, request.plan);
  const std::string method = absl::StrCat(request.job.lora.use_rslora ? "rsLoRA" : "LoRA",
                                          request.job.lora.loraplus_lr_ratio != 1.0 ? "+" : "",
                                          lora.dora ? " with DoRA" : "");
  return absl::StrCat("---\nbase_model: ", nlohmann::json(base).dump(),
                      "\nlibrary_name: peft\n---\n\n# ", request.job.name, "\n\n", method,
                      " adapter of `", base, "` (", request.plan.model.architecture,
                      "), trained by Coxswain.\n\n| setting | value |\n|---|---|\n| r | ",
                      lora.rank, " |\n| alpha | ", request.job.lora.alpha, " |\n| dropout | ",
                      lora.dropout, " |\n| sequence length | ", request.plan.sequence_len,
                      " |\n| checkpoint | ", fs::path(request.checkpoint_dir).filename().string(),
                      " |\n");
}

absl::Status ExportAdapter(Files* files, const ExportRequest& request,
                           const CheckpointTensors& checkpoint) {
  const std::string staging = StagingOf(request, "adapter");
  RETURN_IF_ERROR(MakeEmpty(files, staging));
  RETURN_IF_ERROR(WriteAdapter(request.job, request.plan, checkpoint, staging));
  RETURN_IF_ERROR(WriteFileDurably(absl::StrCat(staging, "/README.md"), AdapterCard(request)));
  RETURN_IF_ERROR(WriteTokenizer(request.job, request.plan, staging));
  if (!request.format.ends.empty() || !request.format.chat_template.empty()) {
    RETURN_IF_ERROR(WriteTrainedFormat(request.format, request.plan, staging));
  }
  return Replace(files, request, "adapter");
}

absl::Status ExportModel(Files* files, const ExportRequest& request,
                         const CheckpointTensors& checkpoint) {
  const std::string staging = StagingOf(request, "model");
  RETURN_IF_ERROR(MakeEmpty(files, staging));
  RETURN_IF_ERROR(WriteModel(request.job, request.plan, checkpoint, staging));
  RETURN_IF_ERROR(WriteTokenizer(request.job, request.plan, staging));
  RETURN_IF_ERROR(WriteTrainedFormat(request.format, request.plan, staging));
  RETURN_IF_ERROR(CopyFilesThatExist(request.plan.model_path, staging,
                                     {"preprocessor_config.json", "processor_config.json"}));
  return Replace(files, request, "model");
}

}  // namespace

absl::StatusOr<ExportResult> ExportArtifacts(Files* files, const ExportRequest& request) {
  ASSIGN_OR_RETURN(const CheckpointTensors checkpoint,
                   CheckpointTensors::Open(request.checkpoint_dir));
  const std::string& out = request.job.output_dir;
  const bool adapter = request.plan.lora.rank > 0;
  const bool merge = adapter && request.job.export_merge;
  if (adapter) RETURN_IF_ERROR(ExportAdapter(files, request, checkpoint));
  if (!adapter || merge) RETURN_IF_ERROR(ExportModel(files, request, checkpoint));
  ExportResult result;
  result.directory = absl::StrCat(out, adapter ? "/adapter" : "/model");
  if (merge) result.merged_directory = absl::StrCat(out, "/model");
  ASSIGN_OR_RETURN(result.files, ListFiles(result.directory));
  return result;
}

}  // namespace coxswain::exports
