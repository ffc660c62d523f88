// Turns a committed checkpoint into what users load elsewhere: a PEFT adapter, or a Hugging Face
// model directory. Reads and writes files only, holds one tensor in memory at a time, and can be
// run again after a crash: everything is written to a staging directory and renamed.
#ifndef COXSWAIN_CONTROLLER_DRIVER_EXPORT_ARTIFACTS_H_
#define COXSWAIN_CONTROLLER_DRIVER_EXPORT_ARTIFACTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "common/plan/plan.h"

namespace coxswain::driver {

struct ExportRequest {
  config::JobSpec job;         // adapter settings, export settings, output_dir
  plan::Plan plan;             // parameter table and model path
  std::string checkpoint_dir;  // committed checkpoint with rank-*.safetensors
};

struct ExportedFile {
  std::string name;  // relative to ExportResult::directory
  int64_t bytes = 0;
};

struct ExportResult {
  std::string directory;  // what a user loads: <output_dir>/adapter, or <output_dir>/model
  std::vector<ExportedFile> files;
};

// LoRA: <output_dir>/adapter (fp32, with a model card README.md), and with export.merge also
// <output_dir>/model, the base with the adapter folded in. Full fine-tuning: <output_dir>/model. An
// earlier export there is replaced. NotFound names a tensor the checkpoint lacks; ResourceExhausted
// names the path of a full disk.
absl::StatusOr<ExportResult> ExportArtifacts(const ExportRequest& request);

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_EXPORT_ARTIFACTS_H_
