// Translates the structs of kernels/c_api/c_api.h into those of the ops: products and what goes
// with them.
#include "kernels/c_api/calls.h"
#include "kernels/products/bias.h"
#include "kernels/products/gated_linear.h"
#include "kernels/products/gemm.h"

namespace coxswain::kernels::c_api {
namespace {

GatedLinearSpec SpecOf(const coxswain_gated_linear_args& args) {
  return {.dtype = Type(args.dtype),
          .hidden = args.hidden,
          .intermediate = args.intermediate,
          .activation = Activation(args.activation)};
}

BiasSpec SpecOf(const coxswain_bias_args& args) {
  return {.dtype = Type(args.dtype), .grad_dtype = Type(args.grad_dtype)};
}

}  // namespace
}  // namespace coxswain::kernels::c_api

namespace kernels = coxswain::kernels;
namespace c_api = coxswain::kernels::c_api;

extern "C" {

int64_t coxswain_gemm_workspace_bytes(void) { return kernels::GemmWorkspaceBytes(); }

int coxswain_set_gemm_tuning(int on) {
  return c_api::Guarded([&] { kernels::SetGemmTuning(on != 0); });
}

int coxswain_gemm(const coxswain_gemm_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::Gemm({.spec = {.dtype = c_api::Type(args->dtype),
                            .output_dtype = c_api::Type(args->output_dtype),
                            .transpose_a = args->transpose_a != 0,
                            .transpose_b = args->transpose_b != 0},
                   .m = args->m,
                   .n = args->n,
                   .k = args->k,
                   .alpha = args->alpha,
                   .a = args->a,
                   .lda = args->lda,
                   .b = args->b,
                   .ldb = args->ldb,
                   .beta = args->beta,
                   .c = args->c,
                   .ldc = args->ldc,
                   .bias = args->bias,
                   .workspace = c_api::Lent(args->workspace)},
                  c_api::Wrap(stream));
  });
}

int coxswain_gated_linear_forward(const coxswain_gated_linear_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::GatedLinearForward({.spec = c_api::SpecOf(*args),
                                 .rows = args->rows,
                                 .x = args->x,
                                 .weight = args->weight,
                                 .gate_up = args->gate_up,
                                 .y = args->y,
                                 .workspace = c_api::Lent(args->workspace)},
                                c_api::Wrap(stream));
  });
}

int coxswain_gated_linear_backward(const coxswain_gated_linear_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::GatedLinearBackward({.spec = c_api::SpecOf(*args),
                                  .rows = args->rows,
                                  .dout = args->x,
                                  .weight = args->weight,
                                  .gate_up = args->gate_up,
                                  .y = args->y,
                                  .wants_y = args->wants_y != 0,
                                  .workspace = c_api::Lent(args->workspace)},
                                 c_api::Wrap(stream));
  });
}

int64_t coxswain_bias_backward_workspace_bytes(const coxswain_bias_args* args) {
  return c_api::GuardedBytes([&] {
    return kernels::BiasBackwardWorkspaceBytes(c_api::SpecOf(*args), args->rows, args->columns);
  });
}

int coxswain_bias_backward(const coxswain_bias_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::BiasBackward({.spec = c_api::SpecOf(*args),
                           .rows = args->rows,
                           .columns = args->columns,
                           .dy = args->dy,
                           .ldy = args->ldy == 0 ? args->columns : args->ldy,
                           .dbias = args->dbias,
                           .workspace = c_api::Lent(args->workspace)},
                          c_api::Wrap(stream));
  });
}

}  // extern "C"
