// The job that `cox generate` submits: method generate, over a model's directory or another job.
#ifndef COXSWAIN_CONTROLLER_CLI_GENERATION_JOB_H_
#define COXSWAIN_CONTROLLER_CLI_GENERATION_JOB_H_

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
  std::string adapter;         // PEFT directory, of a model alone
  std::string style = "auto";  // of prompts: auto, chat, alpaca, text
  int64_t max_new_tokens = 256;
  double temperature = 0;
  int64_t top_k = 0;
  double top_p = 1;
  int64_t seed = 0;
};

// What is asked, and how: the section spec.generate. InvalidArgument: neither prompts nor messages,
// or both. Other errors are the file's.
absl::StatusOr<nlohmann::ordered_json> GenerateSection(const GenerationArgs& args);

// Over the model in `directory`, with args.adapter. Its texts may be as long as config.json says.
// NotFound, InvalidArgument: a file of model or adapter that is missing or not read here.
absl::StatusOr<nlohmann::ordered_json> ModelGeneration(const std::string& directory,
                                                       const GenerationArgs& args);

// Over a checkpoint of `job`: of finished step `step`, -1: the newest. FailedPrecondition: it has
// none.
absl::StatusOr<nlohmann::ordered_json> JobGeneration(const v1::Job& job, int64_t step,
                                                     const GenerationArgs& args);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_GENERATION_JOB_H_
