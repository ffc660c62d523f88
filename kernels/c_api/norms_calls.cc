// Translates the structs of kernels/c_api/c_api.h into those of the ops: norms.
#include "kernels/attention/heads.h"
#include "kernels/c_api/calls.h"
#include "kernels/norms/norms.h"

namespace coxswain::kernels::c_api {
namespace {

template <typename Args>
RmsNormSpec NormSpec(const Args& args) {
  RmsNormSpec spec;
  spec.dtype = Type(args.dtype);
  spec.grad_dtype = Type(args.grad_dtype);
  spec.hidden = args.hidden;
  spec.weight_offset = args.weight_offset;
  return spec;
}

void NormForward(const coxswain_rms_norm_args& args, Stream* stream) {
  RmsNormSpec spec = NormSpec(args);
  spec.eps = args.eps;
  if (args.residual == nullptr) {
    RmsNormForward({.spec = spec,
                    .rows = args.rows,
                    .x = args.x,
                    .weight = args.weight,
                    .y = args.y,
                    .rstd = args.rstd},
                   stream);
    return;
  }
  AddRmsNormForward({.spec = spec,
                     .rows = args.rows,
                     .x = args.x,
                     .residual = args.residual,
                     .weight = args.weight,
                     .sum = args.sum,
                     .y = args.y,
                     .rstd = args.rstd},
                    stream);
}

QkNormSpec SpecOf(const coxswain_qk_norm_args& args) {
  return {.dtype = Type(args.dtype),
          .grad_dtype = Type(args.grad_dtype),
          .num_heads = args.num_heads,
          .num_kv_heads = args.num_kv_heads,
          .head_dim = args.head_dim,
          .eps = args.eps,
          .weight_offset = args.weight_offset,
          .whole = args.whole != 0};
}

LayerNormSpec SpecOf(const coxswain_layer_norm_args& args) {
  return {.dtype = Type(args.dtype),
          .grad_dtype = Type(args.grad_dtype),
          .hidden = args.hidden,
          .eps = args.eps};
}

}  // namespace
}  // namespace coxswain::kernels::c_api

namespace kernels = coxswain::kernels;
namespace c_api = coxswain::kernels::c_api;

extern "C" {

int coxswain_rms_norm_forward(const coxswain_rms_norm_args* args, void* stream) {
  return c_api::Guarded([&] { c_api::NormForward(*args, c_api::Wrap(stream)); });
}

int64_t coxswain_rms_norm_backward_workspace_bytes(const coxswain_rms_norm_backward_args* args) {
  return c_api::GuardedBytes(
      [&] { return kernels::RmsNormBackwardWorkspaceBytes(c_api::NormSpec(*args), args->rows); });
}

int coxswain_rms_norm_backward(const coxswain_rms_norm_backward_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::RmsNormBackward({.spec = c_api::NormSpec(*args),
                              .rows = args->rows,
                              .dy = args->dy,
                              .x = args->x,
                              .weight = args->weight,
                              .rstd = args->rstd,
                              .accumulate_dx = args->accumulate_dx != 0,
                              .dx = args->dx,
                              .dweight = args->dweight,
                              .workspace = c_api::Lent(args->workspace)},
                             c_api::Wrap(stream));
  });
}

int coxswain_qk_norm_forward(const coxswain_qk_norm_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::QkNormForward({.spec = c_api::SpecOf(*args),
                            .tokens = args->tokens,
                            .qkv = args->qkv,
                            .q_weight = args->q_weight,
                            .k_weight = args->k_weight,
                            .saved_qk = args->saved_qk,
                            .rstd = args->rstd},
                           c_api::Wrap(stream));
  });
}

int64_t coxswain_qk_norm_backward_workspace_bytes(const coxswain_qk_norm_args* args) {
  return c_api::GuardedBytes(
      [&] { return kernels::QkNormBackwardWorkspaceBytes(c_api::SpecOf(*args), args->tokens); });
}

int coxswain_qk_norm_backward(const coxswain_qk_norm_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::QkNormBackward({.spec = c_api::SpecOf(*args),
                             .tokens = args->tokens,
                             .dqkv = args->qkv,
                             .saved_qk = args->saved_qk,
                             .rstd = args->rstd,
                             .q_weight = args->q_weight,
                             .k_weight = args->k_weight,
                             .dq_weight = args->dq_weight,
                             .dk_weight = args->dk_weight,
                             .workspace = c_api::Lent(args->workspace)},
                            c_api::Wrap(stream));
  });
}

int coxswain_layer_norm_forward(const coxswain_layer_norm_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::LayerNormForward({.spec = c_api::SpecOf(*args),
                               .rows = args->rows,
                               .x = args->x,
                               .weight = args->weight,
                               .bias = args->bias,
                               .y = args->y,
                               .mean = args->mean,
                               .rstd = args->rstd},
                              c_api::Wrap(stream));
  });
}

int64_t coxswain_layer_norm_backward_workspace_bytes(const coxswain_layer_norm_args* args) {
  return c_api::GuardedBytes(
      [&] { return kernels::LayerNormBackwardWorkspaceBytes(c_api::SpecOf(*args), args->rows); });
}

int coxswain_layer_norm_backward(const coxswain_layer_norm_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::LayerNormBackward({.spec = c_api::SpecOf(*args),
                                .rows = args->rows,
                                .dy = args->dy,
                                .x = args->x,
                                .weight = args->weight,
                                .mean = args->mean,
                                .rstd = args->rstd,
                                .accumulate_dx = args->accumulate_dx != 0,
                                .dx = args->dx,
                                .dweight = args->dweight,
                                .dbias = args->dbias,
                                .workspace = c_api::Lent(args->workspace)},
                               c_api::Wrap(stream));
  });
}

}  // extern "C"
