// Why a job does not go on from a checkpoint: it is of other settings.
#ifndef COXSWAIN_CONTROLLER_CHECKPOINT_OTHER_RECIPE_H_
#define COXSWAIN_CONTROLLER_CHECKPOINT_OTHER_RECIPE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/config/job_parser.h"
#include "common/config/recipe_keys.h"
#include "controller/checkpoint/manifest.h"

namespace coxswain::checkpoint {

// What a checkpoint must be of; the texts are lower-case hex.
struct RecipeName {
  std::string hash = {};
  std::string stem = {};  // of the recipe without its length
  int64_t total_steps = 0;
  config::KeyValues keys = {};  // of the recipe, and what it was made of
};

// OK where the checkpoint in `directory` is of the recipe that is wanted, or, with `extend`, of one
// of another length. Else FailedPrecondition: it names each key that differs with both values, and
// what to do.
absl::Status CheckRecipe(const RecipeName& wanted, bool extend, const std::string& directory,
                         const Manifest& found);

// Before the job's files are read, by its keys alone: why it cannot go on from there, in the words
// of CheckRecipe. Nothing where only the model, the data or the number of workers can tell.
std::optional<std::string> RefusalByKeys(const std::string& directory, const Manifest& found,
                                         const config::ParsedJob& job);

}  // namespace coxswain::checkpoint

#endif  // COXSWAIN_CONTROLLER_CHECKPOINT_OTHER_RECIPE_H_
