#include "controller/cli/jobs/export_checkpoint.h"

#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/config/parser/stored_job.h"
#include "common/files/gguf_type.h"
#include "common/identity.h"
#include "common/status_macros.h"
#include "controller/checkpoint/manifest.h"
#include "controller/data/documents/trained_chat.h"
#include "controller/export/export_artifacts.h"
#include "controller/export/gguf_types.h"
#include "controller/planner/export_plan.h"
#include "controller/text/tokenizer/tokenizer.h"

namespace coxswain::cli {
namespace {

namespace fs = std::filesystem;

// Of the same file system as the target; is gone with its owner.
class Scratch {
 public:
  explicit Scratch(const std::string& target)
      : path_(absl::StrCat(target, ".export-", RandomHex(8))) {}
  ~Scratch() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

absl::Status CheckTarget(const std::string& target) {
  std::error_code error;
  if (!fs::exists(target, error) || fs::is_empty(target, error)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(target, ": is not empty; give -o a directory that is empty or absent"));
}

// The job that the checkpoint is of, as it was resolved.
absl::StatusOr<config::JobSpec> JobOf(const checkpoint::Manifest& manifest,
                                      const CheckpointExport& wanted) {
  const std::string& effective =
      manifest.effective_json.empty() ? wanted.effective_json : manifest.effective_json;
  if (effective.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        wanted.checkpoint, ": an earlier release wrote it and did not keep the job in ",
        "it; give JOB:STEP of a controller that knows job ", manifest.job));
  }
  config::ParsedJob job = config::ReadStoredJob(effective, "", wanted.checkpoint);
  if (!job.errors.empty()) {
    return absl::InvalidArgumentError(config::FormatErrors(job.errors, wanted.checkpoint));
  }
  if (!wanted.base_model.empty()) job.spec.model_path = wanted.base_model;
  return std::move(job.spec);
}

absl::Status CheckMerge(const config::JobSpec& job, const CheckpointExport& wanted) {
  if (!wanted.merge || job.adapter != config::Adapter::kNone) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(wanted.checkpoint,
                   ": is of full fine-tuning, whose export is a model already; leave --merge out"));
}

absl::Status CheckGguf(const config::JobSpec& job, const CheckpointExport& wanted) {
  for (const auto& [option, word] :
       {std::pair{"--gguf", wanted.gguf.model}, std::pair{"--gguf-adapter", wanted.gguf.adapter}}) {
    if (word == "none" || exports::GgufFileTypeOf(word).has_value()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(option, " ", word, ": is no type that is written; f32, f16, bf16 and, of ",
                     "models, q8_0 and q4_k_m are"));
  }
  if (wanted.gguf.adapter == "none") return absl::OkStatus();
  if (wanted.gguf.adapter == "q8_0" || wanted.gguf.adapter == "q4_k_m") {
    return absl::InvalidArgumentError(
        absl::StrCat("--gguf-adapter ", wanted.gguf.adapter, ": give f32, f16 or bf16"));
  }
  if (job.adapter != config::Adapter::kNone) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      wanted.checkpoint, ": is of full fine-tuning; give --gguf in place of --gguf-adapter"));
}

absl::Status CheckBase(Files* files, const config::JobSpec& job) {
  if (files->Exists(job.model_path + "/config.json")) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(
      "no file ", job.model_path,
      "/config.json: the job's base model is not there; give its directory with --base-model DIR"));
}

absl::StatusOr<exports::ExportRequest> RequestOf(const config::JobSpec& job,
                                                 const checkpoint::Manifest& manifest,
                                                 const std::string& directory) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const data::Tokenizer> tokenizer,
                   data::Tokenizer::Load(job.model_path, job.added_tokens));
  data::PreparedData tokens;
  tokens.vocab_size = tokenizer->vocab_size();
  tokens.added_tokens = static_cast<int64_t>(tokenizer->added().size());
  tokens.pad_token = tokenizer->pad_id();
  ASSIGN_OR_RETURN(plan::Plan plan, planner::ExportPlan(job, tokens));
  ASSIGN_OR_RETURN(data::TrainedChat chat, data::TrainedChatOf(job));
  return exports::ExportRequest{
      .job = job,
      .plan = std::move(plan),
      .checkpoint_dir = directory,
      .format = {std::move(chat.chat_template), std::move(chat.ends)},
      .owner = ".cox",
      .author = {.job = manifest.job, .step = manifest.run.step, .origin = manifest.origin}};
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExportCheckpoint(Files* files,
                                                          const CheckpointExport& wanted) {
  RETURN_IF_ERROR(CheckTarget(wanted.target));
  ASSIGN_OR_RETURN(const checkpoint::Manifest manifest,
                   checkpoint::VerifyCheckpoint(files, wanted.checkpoint));
  ASSIGN_OR_RETURN(config::JobSpec job, JobOf(manifest, wanted));
  RETURN_IF_ERROR(CheckMerge(job, wanted));
  RETURN_IF_ERROR(CheckGguf(job, wanted));
  RETURN_IF_ERROR(CheckBase(files, job));
  const Scratch scratch(wanted.target);
  job.output_dir = scratch.path();
  job.export_merge = wanted.merge;
  job.export_gguf = wanted.gguf;
  ASSIGN_OR_RETURN(const exports::ExportRequest request,
                   RequestOf(job, manifest, wanted.checkpoint));
  ASSIGN_OR_RETURN(const exports::ExportResult made, exports::ExportArtifacts(files, request));
  std::error_code error;
  fs::remove(wanted.target, error);  // an empty one
  RETURN_IF_ERROR(files->RenameDirectory(made.directory, wanted.target));
  std::vector<std::string> directories = {wanted.target};
  if (!made.merged_directory.empty()) {
    directories.push_back(wanted.target + "/model");
    RETURN_IF_ERROR(files->RenameDirectory(made.merged_directory, directories.back()));
  }
  return directories;
}

}  // namespace coxswain::cli
