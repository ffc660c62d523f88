// Explains why a job cannot continue from a checkpoint of other settings.
#ifndef COXSWAIN_CONTROLLER_CHECKPOINT_OTHER_RECIPE_H_
#define COXSWAIN_CONTROLLER_CHECKPOINT_OTHER_RECIPE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/config/parser/job_parser.h"
#include "common/config/schema/recipe_keys.h"
#include "controller/checkpoint/manifest.h"

namespace coxswain::checkpoint {

// The recipe that a checkpoint must have. Hash and stem are lower-case hex.
struct RecipeName {
  std::string hash = {};
  std::string stem = {};  // hash of the recipe without its length
  int64_t total_steps = 0;
  config::KeyValues keys = {};  // keys of the recipe and of its sources
};

// OK when the checkpoint in `directory` has the wanted recipe or, with `extend`, one of another
// length that still leaves steps to train. Else FailedPrecondition, which names each key that
// differs with both values, and what to do.
absl::Status CheckRecipe(const RecipeName& wanted, bool extend, const std::string& directory,
                         const Manifest& found);

// The reason why the job cannot continue from `directory`, in the words of CheckRecipe. It compares
// keys only, before the job's files are read. Nothing: the keys allow it; model, data and the
// number of workers are not compared.
std::optional<std::string> RefusalByKeys(const std::string& directory, const Manifest& found,
                                         const config::ParsedJob& job);

}  // namespace coxswain::checkpoint

#endif  // COXSWAIN_CONTROLLER_CHECKPOINT_OTHER_RECIPE_H_
