// Translates the structs of kernels/c_api/c_api.h into those of the ops: scores of documents.
#include <stdexcept>
#include <string>

#include "kernels/c_api/calls.h"
#include "kernels/loss/score_loss.h"

namespace kernels = coxswain::kernels;
namespace c_api = coxswain::kernels::c_api;

namespace coxswain::kernels::c_api {
namespace {

ScoreTerm TermOf(int32_t type) {
  if (type < COXSWAIN_SCORE_BRADLEY_TERRY || type > COXSWAIN_SCORE_REGRESSION) {
    throw std::invalid_argument("type is " + std::to_string(type) +
                                ", must be of enum coxswain_score_term");
  }
  return static_cast<ScoreTerm>(type);
}

}  // namespace
}  // namespace coxswain::kernels::c_api

extern "C" {

int coxswain_score_head_forward(const coxswain_score_head_forward_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::ScoreHeadForward(
        {.spec = {.dtype = c_api::Type(args->dtype), .width = args->width, .labels = args->labels},
         .documents = args->documents,
         .rows = args->rows,
         .x = args->x,
         .weight = args->weight,
         .scores = args->scores},
        c_api::Wrap(stream));
  });
}

int coxswain_score_head_backward(const coxswain_score_head_backward_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::ScoreHeadBackward(
        {.spec = {.dtype = c_api::Type(args->dtype), .width = args->width, .labels = args->labels},
         .documents = args->documents,
         .rows = args->rows,
         .x = args->x,
         .weight = args->weight,
         .dscores = args->dscores,
         .scale = args->scale,
         .dx = args->dx,
         .dweight = args->dweight,
         .accumulate = args->accumulate != 0},
        c_api::Wrap(stream));
  });
}

int coxswain_score_loss(const coxswain_score_loss_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::ScoreLoss({.spec = {.type = c_api::TermOf(args->type),
                                 .labels = args->labels,
                                 .centre = args->centre},
                        .documents = args->documents,
                        .rows = args->rows,
                        .scores = args->scores,
                        .values = args->values,
                        .loss = args->loss,
                        .reports = reinterpret_cast<kernels::PreferenceSums*>(args->reports),
                        .dscores = args->dscores},
                       c_api::Wrap(stream));
  });
}

}  // extern "C"
