// Translates the structs of kernels/c_api.h into those of the ops: layers and their pieces.
#include "kernels/bias.h"
#include "kernels/cuda/c_api_calls.h"
#include "kernels/embedding.h"
#include "kernels/gated_linear.h"
#include "kernels/geglu.h"
#include "kernels/gelu.h"
#include "kernels/lora_linear.h"
#include "kernels/qk_norm.h"
#include "kernels/row_gather.h"

namespace coxswain::kernels::c_api {
namespace {

GegluSpec SpecOf(const coxswain_geglu_args& args) {
  return {.dtype = Type(args.dtype), .intermediate = args.intermediate, .tanh = args.erf == 0};
}

GeluSpec SpecOf(const coxswain_gelu_args& args) {
  return {.dtype = Type(args.dtype), .columns = args.columns, .tanh = args.erf == 0};
}

GatedLinearSpec SpecOf(const coxswain_gated_linear_args& args) {
  if (args.activation < COXSWAIN_SILU || args.activation > COXSWAIN_GELU) {
    throw std::invalid_argument("activation is " + std::to_string(args.activation) +
                                ", must be one of coxswain_activation");
  }
  return {.dtype = Type(args.dtype),
          .hidden = args.hidden,
          .intermediate = args.intermediate,
          .activation = args.activation == COXSWAIN_SILU        ? GateActivation::kSilu
                        : args.activation == COXSWAIN_GELU_TANH ? GateActivation::kGeluTanh
                                                                : GateActivation::kGelu};
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

EmbeddingSpec SpecOf(const coxswain_embedding_args& args) {
  return {.dtype = Type(args.dtype),
          .grad_dtype = Type(args.grad_dtype),
          .vocab = args.vocab,
          .hidden = args.hidden,
          .scale = args.scale == 0.0f ? 1.0f : args.scale};
}

BiasSpec SpecOf(const coxswain_bias_args& args) {
  return {.dtype = Type(args.dtype), .grad_dtype = Type(args.grad_dtype)};
}

RowGatherArgs Gather(const coxswain_row_gather_args& args) {
  return {.spec = {.dtype = Type(args.dtype), .columns = args.columns},
          .rows = args.rows,
          .index = args.index,
          .in = args.in,
          .out = args.out};
}

// A spec and the members that it views.
struct Adapted {
  explicit Adapted(const coxswain_lora_linear_args& args) {
    if (args.members < 0 || args.members > static_cast<int64_t>(std::size(members))) {
      throw std::invalid_argument("lora_linear: members");
    }
    for (size_t j = 0; j < std::size(members); ++j) {
      members[j] = {.out_features = args.out_features[j],
                    .column_offset = args.column_offset[j],
                    .b = args.b[j],
                    .db = args.db[j]};
    }
    spec = {.dtype = Type(args.dtype),
            .grad_dtype = Type(args.grad_dtype),
            .in_features = args.in_features,
            .rank = args.rank,
            .members = std::span(members).first(static_cast<size_t>(args.members)),
            .ldy = args.ldy,
            .scale = args.scale,
            .dropout_rate = args.dropout_rate};
  }
  Adapted(const Adapted&) = delete;
  Adapted& operator=(const Adapted&) = delete;

  LoraMember members[3];
  LoraLinearSpec spec;
};

DropoutMask MaskOf(const coxswain_lora_linear_args& args) {
  return {.key = {args.key[0], args.key[1]},
          .site = args.site,
          .step = args.step,
          .bins = args.bins,
          .positions = args.positions};
}

}  // namespace
}  // namespace coxswain::kernels::c_api

namespace kernels = coxswain::kernels;
namespace c_api = coxswain::kernels::c_api;

extern "C" {

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
    kernels::GeluBackward(
        {.spec = c_api::SpecOf(*args), .rows = args->rows, .dy = args->dy, .x = args->x},
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

int coxswain_embedding_forward(const coxswain_embedding_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::EmbeddingForward({.spec = c_api::SpecOf(*args),
                               .tokens = args->tokens,
                               .ids = args->ids,
                               .weight = args->weight,
                               .out = args->out},
                              c_api::Wrap(stream));
  });
}

int64_t coxswain_embedding_backward_workspace_bytes(const coxswain_embedding_args* args) {
  return c_api::GuardedBytes(
      [&] { return kernels::EmbeddingBackwardWorkspaceBytes(c_api::SpecOf(*args), args->tokens); });
}

int coxswain_embedding_backward(const coxswain_embedding_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::EmbeddingBackward({.spec = c_api::SpecOf(*args),
                                .tokens = args->tokens,
                                .ids = args->ids,
                                .dout = args->dout,
                                .dweight = args->dweight,
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

int coxswain_gather_rows(const coxswain_row_gather_args* args, void* stream) {
  return c_api::Guarded([&] { kernels::GatherRows(c_api::Gather(*args), c_api::Wrap(stream)); });
}

int coxswain_scatter_add_rows(const coxswain_row_gather_args* args, void* stream) {
  return c_api::Guarded(
      [&] { kernels::ScatterAddRows(c_api::Gather(*args), c_api::Wrap(stream)); });
}

int64_t coxswain_lora_linear_forward_workspace_bytes(const coxswain_lora_linear_args* args) {
  return c_api::GuardedBytes([&] {
    return kernels::LoraLinearForwardWorkspaceBytes(c_api::Adapted(*args).spec, args->rows);
  });
}

int64_t coxswain_lora_linear_backward_workspace_bytes(const coxswain_lora_linear_args* args) {
  return c_api::GuardedBytes([&] {
    return kernels::LoraLinearBackwardWorkspaceBytes(c_api::Adapted(*args).spec, args->rows);
  });
}

int coxswain_lora_linear_forward(const coxswain_lora_linear_args* args, void* stream) {
  return c_api::Guarded([&] {
    const c_api::Adapted adapted(*args);
    kernels::LoraLinearForward({.spec = adapted.spec,
                                .mask = c_api::MaskOf(*args),
                                .rows = args->rows,
                                .x = args->x,
                                .a = args->a,
                                .h = args->h,
                                .y = args->y,
                                .accumulate_y = args->accumulate_y != 0,
                                .workspace = c_api::Lent(args->workspace)},
                               c_api::Wrap(stream));
  });
}

int coxswain_lora_linear_backward(const coxswain_lora_linear_args* args, void* stream) {
  return c_api::Guarded([&] {
    const c_api::Adapted adapted(*args);
    kernels::LoraLinearBackward({.spec = adapted.spec,
                                 .mask = c_api::MaskOf(*args),
                                 .rows = args->rows,
                                 .x = args->x,
                                 .a = args->a,
                                 .h = args->h,
                                 .dy = args->dy,
                                 .da = args->da,
                                 .dx = args->dx,
                                 .accumulate_dx = args->accumulate_dx != 0,
                                 .workspace = c_api::Lent(args->workspace)},
                                c_api::Wrap(stream));
  });
}

}  // extern "C"
