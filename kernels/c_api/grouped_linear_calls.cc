// Translates the struct of kernels/c_api/experts.h into that of kernels/experts/grouped_linear.h.
#include "kernels/experts/grouped_linear.h"

#include "kernels/c_api/calls.h"

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
