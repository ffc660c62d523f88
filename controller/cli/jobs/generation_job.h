// The job that `cox generate` submits: method generate, over a model's directory or another job.
#ifndef COXSWAIN_CONTROLLER_CLI_JOBS_GENERATION_JOB_H_
#define COXSWAIN_CONTROLLER_CLI_JOBS_GENERATION_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "coxswain/v1/job.pb.h"

namespace coxswain::cli {

struct GenerationArgs {
  std::vector<std::string> prompts;
  std::string messages_file;   // a JSON list; "-": standard input; empty: prompts
  std::string adapter;         // PEFT directory; only with a model's directory
  std::string style = "auto";  // of the prompts: auto, chat, alpaca, text
  int64_t max_new_tokens = 256;
  double temperature = 0;
  int64_t top_k = 0;
  double top_p = 1;
  int64_t seed = 0;
};

// The section spec.generate. InvalidArgument: neither prompts nor messages are given, or both.
// Other errors come from reading messages_file.
absl::StatusOr<nlohmann::ordered_json> GenerateSection(const GenerationArgs& args);

// A job over the model in `directory`, with args.adapter. config.json gives the longest text.
// NotFound, InvalidArgument: a file of the model or the adapter is missing or has an unsupported
// form.
absl::StatusOr<nlohmann::ordered_json> ModelGeneration(const std::string& directory,
                                                       const GenerationArgs& args);

// A job over a checkpoint of `job`: that of finished step `step`, or the newest for -1.
// FailedPrecondition: the job has no checkpoint.
absl::StatusOr<nlohmann::ordered_json> JobGeneration(const v1::Job& job, int64_t step,
                                                     const GenerationArgs& args);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_JOBS_GENERATION_JOB_H_
