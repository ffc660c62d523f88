// Translates the structs of kernels/c_api/c_api.h into those of the ops: gated units and GELU.
#include "kernels/activations/gates.h"
#include "kernels/c_api/calls.h"

namespace coxswain::kernels::c_api {
namespace {

SwigluSpec GluSpec(const coxswain_swiglu_args& args) {
  return {.dtype = Type(args.dtype), .intermediate = args.intermediate};
}

ClampedSwigluSpec SpecOf(const coxswain_clamped_swiglu_args& args) {
  return {.dtype = Type(args.dtype),
          .intermediate = args.intermediate,
          .alpha = args.alpha,
          .limit = args.limit};
}

GegluSpec SpecOf(const coxswain_geglu_args& args) {
  return {.dtype = Type(args.dtype), .intermediate = args.intermediate, .tanh = args.erf == 0};
}

GeluSpec SpecOf(const coxswain_gelu_args& args) {
  return {.dtype = Type(args.dtype), .columns = args.columns, .tanh = args.erf == 0};
}

}  // namespace
}  // namespace coxswain::kernels::c_api

namespace kernels = coxswain::kernels;
namespace c_api = coxswain::kernels::c_api;

extern "C" {

int coxswain_swiglu_forward(const coxswain_swiglu_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::SwigluForward(
        {.spec = c_api::GluSpec(*args), .rows = args->rows, .gate_up = args->gate_up, .y = args->y},
        c_api::Wrap(stream));
  });
}

int coxswain_swiglu_backward(const coxswain_swiglu_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::SwigluBackward({.spec = c_api::GluSpec(*args),
                             .rows = args->rows,
                             .dy = args->dy,
                             .gate_up = args->gate_up,
                             .gradient = args->gradient,
                             .y = args->y},
                            c_api::Wrap(stream));
  });
}

int coxswain_clamped_swiglu_forward(const coxswain_clamped_swiglu_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::ClampedSwigluForward(
        {.spec = c_api::SpecOf(*args), .rows = args->rows, .gate_up = args->gate_up, .y = args->y},
        c_api::Wrap(stream));
  });
}

int coxswain_clamped_swiglu_backward(const coxswain_clamped_swiglu_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::ClampedSwigluBackward({.spec = c_api::SpecOf(*args),
                                    .rows = args->rows,
                                    .dy = args->dy,
                                    .gate_up = args->gate_up,
                                    .gradient = args->gradient,
                                    .y = args->y},
                                   c_api::Wrap(stream));
  });
}

int coxswain_geglu_forward(const coxswain_geglu_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::GegluForward(
        {.spec = c_api::SpecOf(*args), .rows = args->rows, .gate_up = args->gate_up, .y = args->y},
        c_api::Wrap(stream));
  });
}

int coxswain_geglu_backward(const coxswain_geglu_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::GegluBackward({.spec = c_api::SpecOf(*args),
                            .rows = args->rows,
                            .dy = args->dy,
                            .gate_up = args->gate_up,
                            .gradient = args->gradient,
                            .y = args->y},
                           c_api::Wrap(stream));
  });
}

int coxswain_gelu_forward(const coxswain_gelu_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::GeluForward(
        {.spec = c_api::SpecOf(*args), .rows = args->rows, .x = args->x, .y = args->y},
        c_api::Wrap(stream));
  });
}

int coxswain_gelu_backward(const coxswain_gelu_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::GeluBackward({.spec = c_api::SpecOf(*args),
                           .rows = args->rows,
                           .dy = args->dy,
                           .x = args->x,
                           .gradient = args->gradient},
                          c_api::Wrap(stream));
  });
}

}  // extern "C"
