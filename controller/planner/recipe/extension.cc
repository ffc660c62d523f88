#include "controller/planner/recipe/extension.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "controller/planner/recipe/learning_rate.h"

namespace coxswain::planner {

std::string ExtensionText(const config::JobSpec& job, const Recipe& recipe, int64_t step,
                          int64_t total_steps) {
  const LearningRate before = MakeLearningRate(job.train, total_steps);
  const int64_t pass = recipe.pass_of_step(step);
  const double next = recipe.learning_rate(step);
  std::string text = absl::StrFormat(
      "extends a recipe of %d steps to %d, from step %d, with the optimizer's moments: steps up to "
      "%d are not trained again; step %d has learning rate %.4g",
      total_steps, recipe.total_steps(), step, step, step + 1, next);
  if (step < total_steps) {
    absl::StrAppendFormat(&text, ", under %d steps it would have had %.4g", total_steps,
                          before.At(step));
  } else {
    absl::StrAppendFormat(&text, ", step %d had %.4g", step, before.At(step - 1));
  }
  absl::StrAppendFormat(&text,
                        "; the order of data is that of a job of %d steps from the start, whose "
                        "first %d are the same: pass %d goes on at its step %d of %d",
                        recipe.total_steps(), step, pass + 1,
                        step - recipe.first_step_of_pass(pass) + 1,
                        recipe.first_step_of_pass(pass + 1) - recipe.first_step_of_pass(pass));
  return text;
}

}  // namespace coxswain::planner
