// Translates the struct of kernels/c_api/experts.h into that of
// kernels/experts/grouped_gated_linear.h.
#include "kernels/experts/grouped_gated_linear.h"

#include "kernels/c_api/calls.h"

namespace kernels = coxswain::kernels;
namespace c_api = coxswain::kernels::c_api;

extern "C" {

int coxswain_grouped_gated_linear_forward(const coxswain_grouped_gated_linear_args* args,
                                          void* stream) {
  return c_api::Guarded([&] {
    kernels::GroupedGatedLinearForward({.spec = {.dtype = c_api::Type(args->dtype),
                                                 .experts = args->experts,
                                                 .in_features = args->in_features,
                                                 .intermediate = args->intermediate,
                                                 .alpha = args->alpha,
                                                 .limit = args->limit},
                                        .rows = args->rows,
                                        .offsets = args->offsets,
                                        .x = args->x,
                                        .weight = args->weight,
                                        .bias = args->bias,
                                        .gate_up = args->gate_up,
                                        .wants_gate_up = args->leaves_gate_up == 0,
                                        .y = args->y},
                                       c_api::Wrap(stream));
  });
}

}  // extern "C"
