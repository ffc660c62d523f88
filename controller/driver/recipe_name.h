// What checkpoints of a curriculum say they are of.
#ifndef COXSWAIN_CONTROLLER_DRIVER_RECIPE_NAME_H_
#define COXSWAIN_CONTROLLER_DRIVER_RECIPE_NAME_H_

#include "common/hash.h"
#include "controller/checkpoint/checkpoint_files.h"
#include "controller/driver/curriculum.h"

namespace coxswain::driver {

inline checkpoint::RecipeName NameOf(const Curriculum& curriculum) {
  return {.hash = ToHex(curriculum.recipe_hash()),
          .stem = ToHex(curriculum.recipe_stem()),
          .total_steps = curriculum.total_steps()};
}

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_RECIPE_NAME_H_
