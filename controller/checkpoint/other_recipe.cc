#include "controller/checkpoint/other_recipe.h"

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/config/schema/recipe_keys.h"
#include "common/status_macros.h"

namespace coxswain::checkpoint {
namespace {

const char kNumEpochs[] = "train.num_epochs";
const char kMaxSteps[] = "train.max_steps";

bool OfStem(const Manifest& found, const RecipeName& wanted) {
  return !found.recipe_stem.empty() && found.recipe_stem == wanted.stem;
}

// What checkpoints of earlier releases do not keep is known by hashes only.
std::string Reason(const Manifest& found, const RecipeName& wanted) {
  const std::string keys = config::Differences(found.recipe_keys(), wanted.keys);
  if (!keys.empty()) return keys;
  return absl::StrCat("model, data, batch or schedule differ (recipe ",
                      found.recipe_hash.substr(0, 12), "... there and ", wanted.hash.substr(0, 12),
                      "... here)");
}

std::string OtherSettings(const std::string& directory, const std::string& reason, bool extend) {
  return absl::StrCat(directory, ": belongs to another recipe: ", reason,
                      extend ? "; checkpoint.extend allows only another number of steps" : "",
                      ". To go on from it, give its values. For a separate job, give another "
                      "checkpoint.output_dir (lora.init_from: starts it from an exported adapter). "
                      "To start over in this folder, set checkpoint.resume: never");
}

std::string OtherLength(const std::string& directory, const std::string& lengths, int64_t step) {
  return absl::StrCat(directory, ": ", lengths,
                      "; no other key that is compared before the data is read differs. Set "
                      "checkpoint.extend: true to go on from step ",
                      step,
                      " with the optimizer's moments, give another checkpoint.output_dir, or "
                      "checkpoint.resume: never to start over in this one");
}

std::string ValueOf(const config::KeyValues& keys, const char* key) {
  const auto found = keys.find(key);
  return found == keys.end() ? "null" : found->second;
}

// Whether the job has another number of steps, for certain: passes are counted in steps when the
// data is known.
bool HasOtherLength(const Manifest& found, const config::TrainSpec& train) {
  const std::string max_steps = ValueOf(found.recipe_keys(), kMaxSteps);
  if (train.max_steps) {
    return max_steps == "null" ? found.total_steps != *train.max_steps
                               : max_steps != absl::StrCat(*train.max_steps);
  }
  double there = 0;
  if (!absl::SimpleAtod(ValueOf(found.recipe_keys(), kNumEpochs), &there) || there <= 0)
    return false;
  const double here = train.num_epochs.value_or(1.0);
  const double steps = static_cast<double>(found.total_steps);
  return std::abs(here - there) / there * steps >= 1.0;
}

}  // namespace

absl::Status CheckRecipe(const RecipeName& wanted, bool extend, const std::string& directory,
                         const Manifest& found) {
  if (found.recipe_hash == wanted.hash) return absl::OkStatus();
  if (!OfStem(found, wanted)) {
    return absl::FailedPreconditionError(OtherSettings(directory, Reason(found, wanted), extend));
  }
  if (!extend) {
    return absl::FailedPreconditionError(
        OtherLength(directory,
                    absl::StrCat("its recipe has ", found.total_steps, " steps and this job's ",
                                 wanted.total_steps),
                    found.run.step));
  }
  if (found.run.step < wanted.total_steps) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(directory, ": has ", found.run.step, " finished steps and this job has ",
                   wanted.total_steps, " in all: nothing is left for checkpoint.extend to train; ",
                   "raise train.num_epochs or train.max_steps"));
}

std::optional<std::string> RefusalByKeys(const std::string& directory, const Manifest& found,
                                         const config::ParsedJob& job) {
  config::KeyValues here = config::DecidingKeys(job.effective_json);
  const bool same = config::Differences(found.recipe_keys(), here).empty();
  const bool longer = HasOtherLength(found, job.spec.train);
  if (same && (!longer || job.spec.extend)) return std::nullopt;
  if (longer) {
    const config::KeyValues all = config::RecipeKeys(job.effective_json);
    for (const char* key : {kNumEpochs, kMaxSteps}) here[key] = ValueOf(all, key);
  }
  const std::string reason = config::Differences(found.recipe_keys(), here);
  return same ? OtherLength(directory, reason, found.run.step)
              : OtherSettings(directory, reason, job.spec.extend);
}

}  // namespace coxswain::checkpoint
