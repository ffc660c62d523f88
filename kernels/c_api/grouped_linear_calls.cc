// Translates the structs of kernels/c_api/experts.h into those of the products by expert.
#include "kernels/c_api/calls.h"
#include "kernels/experts/grouped_gated_linear.h"
#include "kernels/experts/grouped_linear.h"
#include "kernels/experts/grouped_lora.h"

// Translates the struct of kernels/c_api/experts.h into that of kernels/experts/grouped_linear.h.

namespace coxswain::kernels::c_api {
namespace {

GroupedLinearSpec SpecOf(const coxswain_grouped_linear_args& args) {
  return {.dtype = Type(args.dtype),
          .grad_dtype = Type(args.grad_dtype),
          .experts = args.experts,
          .in_features = args.in_features,
          .out_features = args.out_features};
}

}  // namespace
}  // namespace coxswain::kernels::c_api

namespace kernels = coxswain::kernels;
namespace c_api = coxswain::kernels::c_api;

extern "C" {

int coxswain_grouped_linear_forward(const coxswain_grouped_linear_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::GroupedLinearForward({.spec = c_api::SpecOf(*args),
                                   .rows = args->rows,
                                   .offsets = args->offsets,
                                   .x = args->x,
                                   .weight = args->weight,
                                   .bias = args->bias,
                                   .y = args->y},
                                  c_api::Wrap(stream));
  });
}

int coxswain_grouped_linear_input_gradient(const coxswain_grouped_linear_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::GroupedLinearInputGradient({.spec = c_api::SpecOf(*args),
                                         .rows = args->rows,
                                         .offsets = args->offsets,
                                         .dy = args->dy,
                                         .weight = args->weight,
                                         .dx = args->dx},
                                        c_api::Wrap(stream));
  });
}

int coxswain_grouped_linear_weight_gradient(const coxswain_grouped_linear_args* args,
                                            void* stream) {
  return c_api::Guarded([&] {
    kernels::GroupedLinearWeightGradient({.spec = c_api::SpecOf(*args),
                                          .rows = args->rows,
                                          .offsets = args->offsets,
                                          .dy = args->dy,
                                          .x = args->x,
                                          .accumulate = args->accumulate != 0,
                                          .dweight = args->dweight,
                                          .dbias = args->dbias},
                                         c_api::Wrap(stream));
  });
}

}  // extern "C"

// Translates the struct of kernels/c_api/experts.h into that of
// kernels/experts/grouped_gated_linear.h.

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

// Translates the struct of kernels/c_api/experts.h into those of kernels/experts/grouped_lora.h.

namespace coxswain::kernels::c_api {
namespace {

GroupedLoraSpec SpecOf(const coxswain_grouped_lora_args& args) {
  return {.dtype = Type(args.dtype),
          .grad_dtype = Type(args.grad_dtype),
          .experts = args.experts,
          .in_features = args.in_features,
          .out_features = args.out_features,
          .rank = args.rank,
          .scale = args.scale};
}

}  // namespace
}  // namespace coxswain::kernels::c_api

namespace kernels = coxswain::kernels;
namespace c_api = coxswain::kernels::c_api;

extern "C" {

int coxswain_grouped_lora_forward(const coxswain_grouped_lora_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::GroupedLoraForward({.spec = c_api::SpecOf(*args),
                                 .rows = args->rows,
                                 .offsets = args->offsets,
                                 .x = args->x,
                                 .a = args->a,
                                 .b = args->b,
                                 .h = args->h,
                                 .y = args->y},
                                c_api::Wrap(stream));
  });
}

int64_t coxswain_grouped_lora_backward_workspace_bytes(const coxswain_grouped_lora_args* args) {
  return c_api::GuardedBytes(
      [&] { return kernels::GroupedLoraBackwardWorkspaceBytes(c_api::SpecOf(*args), args->rows); });
}

int coxswain_grouped_lora_backward(const coxswain_grouped_lora_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::GroupedLoraBackward({.spec = c_api::SpecOf(*args),
                                  .rows = args->rows,
                                  .offsets = args->offsets,
                                  .x = args->x,
                                  .a = args->a,
                                  .b = args->b,
                                  .h = args->h,
                                  .dy = args->dy,
                                  .da = args->da,
                                  .db = args->db,
                                  .dx = args->dx,
                                  .workspace = c_api::Lent(args->workspace)},
                                 c_api::Wrap(stream));
  });
}

}  // extern "C"
