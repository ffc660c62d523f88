#include "controller/export/export_artifacts.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint_tensors.h"
#include "common/faults/fault_point.h"
#include "common/files/durable_file.h"
#include "common/status_macros.h"
#include "controller/export/artifact_files.h"
#include "controller/export/base_model_name.h"
#include "controller/export/export_adapter.h"
#include "controller/export/export_gguf.h"
#include "controller/export/export_model.h"
#include "controller/export/export_rounding.h"
#include "controller/export/export_tokenizer.h"
#include "controller/export/score_labels.h"
#include "controller/folders/output_place.h"
#include "controller/folders/written_folder.h"
#include "controller/folders/written_names.h"

namespace coxswain::exports {
namespace {

namespace fs = std::filesystem;

constexpr char kGgufName[] = "gguf";  // of a verification

// Where an export is written; beside the target, so that the final rename stays on one file system.
std::string StagingOf(const ExportRequest& request, const std::string& name) {
  return absl::StrCat(request.job.output_dir, "/.staging/export-", name, request.owner);
}

absl::Status MakeEmpty(Files* files, const std::string& directory) {
  RETURN_IF_ERROR(fault::Reach(fault::Point::kExportBegin));
  RETURN_IF_ERROR(files->RemoveAll(directory));
  return files->MakeDirs(directory);
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
                      " adapter of `", base, "` (", request.plan.model.architecture, "), ",
                      kCardSignature, "\n\n| setting | value |\n|---|---|\n| r | ", lora.rank,
                      " |\n| alpha | ", request.job.lora.alpha, " |\n| dropout | ", lora.dropout,
                      " |\n| sequence length | ", request.plan.sequence_len, " |\n| checkpoint | ",
                      fs::path(request.checkpoint_dir).filename().string(), " |\n",
                      LoadingScores(request.job, request.plan, base));
}

bool ExportsModel(const ExportRequest& request) {
  return request.plan.lora.rank == 0 || request.job.export_merge;
}

// Those of the folder, which has the tokenizer already. The model is in the folder of the adapter
// where it has none of its own.
absl::Status WriteGgufFiles(const ExportRequest& request, const CheckpointTensors& checkpoint,
                            StagedFolder* folder) {
  const config::JobSpec& job = request.job;
  const bool adapter = folder->adapter && job.export_gguf.adapter != "none";
  const bool model = job.export_gguf.model != "none" && folder->adapter != ExportsModel(request);
  if (!adapter && !model) return absl::OkStatus();
  folder->gguf = {.artifact = kGgufName, .reason = "the engine does not read GGUF files"};
  if (adapter) {
    RETURN_IF_ERROR(WriteGgufAdapter(job, request.plan, checkpoint, folder->directory));
  }
  if (!model) return absl::OkStatus();
  return WriteGgufModel(job, request.plan, checkpoint, request.format, folder->directory);
}

absl::StatusOr<StagedFolder> StageAdapter(Files* files, const ExportRequest& request,
                                          const CheckpointTensors& checkpoint) {
  const std::string staging = StagingOf(request, kAdapterName);
  RETURN_IF_ERROR(MakeEmpty(files, staging));
  RETURN_IF_ERROR(WriteAdapter(request.job, request.plan, checkpoint, staging));
  RETURN_IF_ERROR(WriteFileDurably(absl::StrCat(staging, "/", kCardName), AdapterCard(request)));
  RETURN_IF_ERROR(WriteTokenizer(request.job, request.plan, staging));
  if (!request.format.ends.empty() || !request.format.chat_template.empty()) {
    RETURN_IF_ERROR(WriteTrainedFormat(request.format, request.plan, staging));
  }
  StagedFolder folder{.directory = staging,
                      .adapter = true,
                      .verification = {.artifact = kAdapterName, .bound_from = kSameBits}};
  RETURN_IF_ERROR(WriteGgufFiles(request, checkpoint, &folder));
  return folder;
}

// Beside an adapter it is the merged model.
absl::StatusOr<StagedFolder> StageModel(Files* files, const ExportRequest& request,
                                        const CheckpointTensors& checkpoint) {
  const std::string staging = StagingOf(request, kModelName);
  RETURN_IF_ERROR(MakeEmpty(files, staging));
  RETURN_IF_ERROR(WriteModel(request.job, request.plan, checkpoint, staging));
  RETURN_IF_ERROR(WriteTokenizer(request.job, request.plan, staging));
  RETURN_IF_ERROR(CopyFilesThatExist(request.plan.model_path, staging, ModelCompanions()));
  RETURN_IF_ERROR(WriteTrainedFormat(request.format, request.plan, staging));
  StagedFolder folder{.directory = staging, .verification = {.artifact = kModelName}};
  RETURN_IF_ERROR(WriteGgufFiles(request, checkpoint, &folder));
  RETURN_IF_ERROR(FindRounding(request.job, request.plan, checkpoint, &folder));
  return folder;
}

// What was written to .staging gets its name. Returns the digest of its manifest.
absl::StatusOr<std::string> PutInPlace(Files* files, const ExportRequest& request,
                                       const StagedFolder& staged, const WrittenFolder& folder,
                                       ExportResult* result) {
  ASSIGN_OR_RETURN(std::string digest, SealFolder(files, staged.directory, request.author,
                                                  staged.verification, staged.gguf));
  RETURN_IF_ERROR(request.guard([&]() -> absl::Status {
    RETURN_IF_ERROR(CheckReplaceable(files, request.job, folder.path));
    RETURN_IF_ERROR(fault::Reach(fault::Point::kExportRename));
    ASSIGN_OR_RETURN(const Finding replaced, ReplaceWritten(files, staged.directory, folder));
    if (!replaced.job.empty() && replaced.job != request.author.job) {
      result->replaced.push_back(absl::StrCat(folder.path, " of job ", replaced.job));
    }
    return fault::Reach(fault::Point::kExportRenamed);
  }));
  return digest;
}

}  // namespace

absl::StatusOr<StagedExport> StageArtifacts(Files* files, const ExportRequest& request) {
  ASSIGN_OR_RETURN(const CheckpointTensors checkpoint,
                   CheckpointTensors::Open(request.checkpoint_dir));
  StagedExport staged;
  if (request.plan.lora.rank > 0) {
    ASSIGN_OR_RETURN(staged.folders.emplace_back(), StageAdapter(files, request, checkpoint));
  }
  if (ExportsModel(request)) {
    ASSIGN_OR_RETURN(staged.folders.emplace_back(), StageModel(files, request, checkpoint));
  }
  RETURN_IF_ERROR(fault::Reach(fault::Point::kExportStaged));
  return staged;
}

absl::StatusOr<ExportResult> PublishArtifacts(Files* files, const ExportRequest& request,
                                              const StagedExport& staged) {
  const std::string& output_dir = request.job.output_dir;
  ExportResult result;
  for (const StagedFolder& folder : staged.folders) {
    const WrittenFolder target =
        folder.adapter ? AdapterFolder(output_dir) : ModelFolder(output_dir);
    const bool merged = !result.directory.empty();
    ASSIGN_OR_RETURN(const std::string digest, PutInPlace(files, request, folder, target, &result));
    (merged ? result.merged_digest : result.digest) = digest;
    (merged ? result.merged_directory : result.directory) = target.path;
  }
  return result;
}

absl::StatusOr<ExportResult> ExportArtifacts(Files* files, const ExportRequest& request) {
  ASSIGN_OR_RETURN(StagedExport staged, StageArtifacts(files, request));
  for (StagedFolder& folder : staged.folders) {
    folder.verification.reason = "it was written without a gang";
  }
  return PublishArtifacts(files, request, staged);
}

}  // namespace coxswain::exports
