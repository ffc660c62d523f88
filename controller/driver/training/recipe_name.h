// What checkpoints of a curriculum say they are of.
#ifndef COXSWAIN_CONTROLLER_DRIVER_TRAINING_RECIPE_NAME_H_
#define COXSWAIN_CONTROLLER_DRIVER_TRAINING_RECIPE_NAME_H_

#include <string>
#include <utility>

#include "common/config/schema/recipe_keys.h"
#include "common/files/hash.h"
#include "controller/checkpoint/checkpoint_files.h"
#include "controller/driver/training/curriculum.h"

namespace coxswain::driver {

// `effective_json`: of the job, whose keys are then named; empty where that is not at hand.
inline checkpoint::RecipeName NameOf(const Curriculum& curriculum,
                                     const std::string& effective_json = {}) {
  config::KeyValues keys = curriculum.recipe_facts();
  keys.merge(config::RecipeKeys(effective_json));
  return {.hash = ToHex(curriculum.recipe_hash()),
          .stem = ToHex(curriculum.recipe_stem()),
          .total_steps = curriculum.total_steps(),
          .keys = std::move(keys)};
}

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_TRAINING_RECIPE_NAME_H_
