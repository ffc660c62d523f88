// The identity of a recipe: a hash over everything that fixes a job's numbers and nothing else.
#ifndef COXSWAIN_CONTROLLER_PLANNER_RECIPE_RECIPE_HASH_H_
#define COXSWAIN_CONTROLLER_PLANNER_RECIPE_RECIPE_HASH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/config/job_spec.h"
#include "common/model/model_config.h"
#include "controller/data/packing/packing.h"

namespace coxswain::planner {

struct RecipeFacts {
  const config::JobSpec& job;
  const model::ModelConfig& model;
  const std::vector<data::Bins>& passes;
  std::string data_hash;         // PreparedData::content_hash
  std::string weights_identity;  // empty for random initialisation
  std::string adapter_identity;  // of lora.init_from; empty without one
  int64_t global_batch_bins = 0;
  int64_t total_steps = 0;
};

// Canonical text: one "key=value" line each, reals as hexadecimal floats, strings length-prefixed.
std::string CanonicalRecipe(const RecipeFacts& facts);

// SHA-256 of CanonicalRecipe, 32 bytes. It leaves out workers, micro-batch, recompute, paths,
// output, evaluation, logging and retries, because none of them changes what a step computes.
std::string RecipeHash(const RecipeFacts& facts);

// The same without the recipe's length. Recipes that differ only in num_epochs or max_steps have
// the same stem, and the same batches in the steps that both have. `passes` must not be empty.
std::string CanonicalStem(const RecipeFacts& facts);
std::string RecipeStem(const RecipeFacts& facts);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_RECIPE_RECIPE_HASH_H_
