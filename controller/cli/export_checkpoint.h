// An adapter or a model of any checkpoint, made on this machine without a worker.
#ifndef COXSWAIN_CONTROLLER_CLI_EXPORT_CHECKPOINT_H_
#define COXSWAIN_CONTROLLER_CLI_EXPORT_CHECKPOINT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/files.h"

namespace coxswain::cli {

struct CheckpointExport {
  std::string checkpoint;      // its directory
  std::string effective_json;  // of its job, where the checkpoint holds none; may be empty
  std::string target;          // is made; absent or empty before
  std::string base_model;      // directory of the base, where it is no more where the job had it
  bool merge = false;          // of an adapter: the merged model too, in target/model
};

// Reads the whole checkpoint and writes a PEFT adapter or, of full fine-tuning, a Hugging Face
// model to `target`. Returns the directories that can be loaded. DataLoss names a damaged block;
// InvalidArgument a target that holds something, a merge of full fine-tuning, or a checkpoint that
// does not say which job it is of; NotFound no checkpoint, or no base.
absl::StatusOr<std::vector<std::string>> ExportCheckpoint(Files* files,
                                                          const CheckpointExport& wanted);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_EXPORT_CHECKPOINT_H_
