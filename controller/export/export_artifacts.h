// Turns a committed checkpoint into what users load elsewhere: a PEFT adapter, or a Hugging Face
// model directory. Reads and writes files only, holds one tensor in memory at a time, and can be
// run again after a crash: everything is written to a staging directory and renamed. What a crash
// leaves there is for SweepStaging.
#ifndef COXSWAIN_CONTROLLER_EXPORT_EXPORT_ARTIFACTS_H_
#define COXSWAIN_CONTROLLER_EXPORT_EXPORT_ARTIFACTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "common/plan/plan.h"
#include "controller/export/export_tokenizer.h"
#include "controller/folders/seal_folder.h"
#include "controller/folders/staged_export.h"
#include "controller/runtime/files.h"
#include "controller/runtime/held_file.h"

namespace coxswain::exports {

struct ExportRequest {
  config::JobSpec job;         // adapter settings, export settings, output_dir
  plan::Plan plan;             // parameter table and model path
  std::string checkpoint_dir;  // committed checkpoint with rank-*.safetensors
  TrainedFormat format = {};   // what answers were rendered with
  std::string owner = {};      // ending of the names in .staging, unique to this attempt
  Author author = {};          // whom the manifest of the export names
  // Runs each replacement of a directory, or refuses: the output may have another owner by then.
  Guard guard = Unguarded;
};

struct ExportResult {
  std::string directory;         // what a user loads: <output_dir>/adapter, or <output_dir>/model
  std::string digest;            // SHA-256 of its manifest, 32 bytes
  std::string merged_directory;  // <output_dir>/model beside an adapter, else empty
  std::string merged_digest;     // likewise
  std::vector<std::string> replaced = {};  // "<directory> of job <job>": exports of other jobs
};

// LoRA: <output_dir>/adapter (fp32, with a model card README.md), and with export.merge also
// <output_dir>/model, the base with the adapter folded in. Full fine-tuning: <output_dir>/model. An
// earlier export there is replaced. Each gets a manifest (seal_folder.h), the last file written.
// NotFound names a tensor the checkpoint lacks; ResourceExhausted names the path of a full disk;
// FailedPrecondition a directory that holds the base model or a dataset, or what no job wrote,
// which is looked at again right before it would be replaced.
absl::StatusOr<ExportResult> ExportArtifacts(Files* files, const ExportRequest& request);

// Its halves. What is staged lies in .staging without a manifest; an earlier rest there is removed.
// PublishArtifacts seals it, with what is known of its verification, and moves it into place: the
// request is that of StageArtifacts.
absl::StatusOr<StagedExport> StageArtifacts(Files* files, const ExportRequest& request);
absl::StatusOr<ExportResult> PublishArtifacts(Files* files, const ExportRequest& request,
                                              const StagedExport& staged);

}  // namespace coxswain::exports

#endif  // COXSWAIN_CONTROLLER_EXPORT_EXPORT_ARTIFACTS_H_
