// Exports an adapter or a model from any checkpoint, on this machine and without a worker.
#ifndef COXSWAIN_CONTROLLER_CLI_JOBS_EXPORT_CHECKPOINT_H_
#define COXSWAIN_CONTROLLER_CLI_JOBS_EXPORT_CHECKPOINT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/runtime/files.h"

namespace coxswain::cli {

struct CheckpointExport {
  std::string checkpoint;      // directory of the checkpoint
  std::string effective_json;  // of the job, for a checkpoint that holds none; may be empty
  std::string target;          // directory to make; absent or empty before
  std::string base_model;      // directory of the base model if it was moved since the job ran
  config::GgufSpec gguf = {};  // what of it lies in target, or with merge in target/model
  bool merge = false;          // for an adapter: write the merged model too, in target/model
};

// Reads the whole checkpoint and writes a PEFT adapter to `target`, or a Hugging Face model after
// full fine-tuning. Returns the directories that can be loaded. DataLoss names a damaged block.
// InvalidArgument: the target is not empty, a merge of full fine-tuning is asked for, or the
// checkpoint does not name its job. NotFound: there is no checkpoint or no base model.
absl::StatusOr<std::vector<std::string>> ExportCheckpoint(Files* files,
                                                          const CheckpointExport& wanted);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_JOBS_EXPORT_CHECKPOINT_H_
