// Where backward writes the gradient of an activation.
#ifndef COXSWAIN_COMMON_PLAN_GRADIENT_ROWS_H_
#define COXSWAIN_COMMON_PLAN_GRADIENT_ROWS_H_

#include <map>

#include "common/model/block.h"

namespace coxswain::plan {

// The stream and the branches that are added to it share "dres": the gradient of a sum is that of
// its parts. A norm of the stream has "dnorm", or, where several linears read it, "dshared", as
// what a branch is before its norm has "dnorm". q, k, v together: "dqkv"; what attention puts out:
// "datt"; what goes into the down projection: "dswiglu". Gate and up become their gradient.
std::map<model::Row, model::Row> GradientRows(const model::ModelConfig& config, int64_t layer);

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_GRADIENT_ROWS_H_
