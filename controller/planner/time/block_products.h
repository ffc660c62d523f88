// The products of blocks whose time depends on more than the parameter table: those of experts, and
// those that backward computes again.
#ifndef COXSWAIN_CONTROLLER_PLANNER_TIME_BLOCK_PRODUCTS_H_
#define COXSWAIN_CONTROLLER_PLANNER_TIME_BLOCK_PRODUCTS_H_

#include "common/plan/plan.h"

namespace coxswain::planner {

// Elements of weights that a token meets in all blocks; again: at the plan's level of
// recomputation.
struct BlockProducts {
  double experts = 0;
  double experts_again = 0;
  double linears_again = 0;   // all others
  double adapters_again = 0;  // A and B of both

  double again() const { return experts_again + linears_again + adapters_again; }
};

BlockProducts BlockProductsOf(const plan::Plan& plan);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_TIME_BLOCK_PRODUCTS_H_
