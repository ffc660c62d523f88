// Translates the structs of kernels/c_api/c_api.h into those of the ops: adapters.
#include <iterator>
#include <span>

#include "kernels/activations/dropout.h"
#include "kernels/c_api/calls.h"
#include "kernels/lora/dora.h"
#include "kernels/lora/lora_gated_linear.h"
#include "kernels/lora/lora_linear.h"

namespace coxswain::kernels::c_api {
namespace {

LoraMember MemberOf(const coxswain_lora_linear_args& args, size_t j) {
  return {.out_features = args.out_features[j],
          .column_offset = args.column_offset[j],
          .b = args.b[j],
          .db = args.db[j]};
}
LoraMember MemberOf(const coxswain_dora_args& args, size_t j) {
  return {.out_features = args.out_features[j],
          .column_offset = args.column_offset[j],
          .b = args.b[j],
          .magnitude = args.magnitude[j],
          .dmagnitude = args.dmagnitude[j]};
}

// A spec and the members that it views.
struct Adapted {
  template <typename Args>
  Adapted(const Args& args, float dropout_rate) {
    if (args.members < 0 || args.members > static_cast<int64_t>(std::size(members))) {
      throw std::invalid_argument("members is " + std::to_string(args.members) + ", at most " +
                                  std::to_string(std::size(members)));
    }
    for (size_t j = 0; j < std::size(members); ++j) members[j] = MemberOf(args, j);
    spec = {.dtype = Type(args.dtype),
            .grad_dtype = Type(args.grad_dtype),
            .in_features = args.in_features,
            .rank = args.rank,
            .members = std::span(members).first(static_cast<size_t>(args.members)),
            .ldy = args.ldy,
            .scale = args.scale,
            .dropout_rate = dropout_rate};
  }
  explicit Adapted(const coxswain_lora_linear_args& args) : Adapted(args, args.dropout_rate) {}
  explicit Adapted(const coxswain_dora_args& args) : Adapted(args, 0.0f) {}
  Adapted(const Adapted&) = delete;
  Adapted& operator=(const Adapted&) = delete;

  LoraMember members[3];
  LoraLinearSpec spec;
};

template <typename Args>
DropoutMask MaskOf(const Args& args) {
  return {.key = {args.key[0], args.key[1]},
          .site = args.site,
          .step = args.step,
          .bins = args.bins,
          .positions = args.positions};
}

LoraLinearForwardArgs ForwardArgs(const coxswain_lora_linear_args& args, const Adapted& adapted) {
  return {.spec = adapted.spec,
          .mask = MaskOf(args),
          .rows = args.rows,
          .x = args.x,
          .weight = args.weight,
          .bias = args.bias,
          .a = args.a,
          .h = args.h,
          .y = args.y,
          .accumulate_y = args.accumulate_y != 0,
          .workspace = Lent(args.workspace)};
}
LoraLinearBackwardArgs BackwardArgs(const coxswain_lora_linear_args& args, const Adapted& adapted) {
  return {.spec = adapted.spec,
          .mask = MaskOf(args),
          .rows = args.rows,
          .x = args.x,
          .weight = args.weight,
          .a = args.a,
          .h = args.h,
          .dy = args.dy,
          .da = args.da,
          .dx = args.dx,
          .accumulate_dx = args.accumulate_dx != 0,
          .workspace = Lent(args.workspace)};
}

}  // namespace
}  // namespace coxswain::kernels::c_api

namespace kernels = coxswain::kernels;
namespace c_api = coxswain::kernels::c_api;

extern "C" {

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
    kernels::LoraLinearForward(c_api::ForwardArgs(*args, adapted), c_api::Wrap(stream));
  });
}

int coxswain_lora_linear_backward(const coxswain_lora_linear_args* args, void* stream) {
  return c_api::Guarded([&] {
    const c_api::Adapted adapted(*args);
    kernels::LoraLinearBackward(c_api::BackwardArgs(*args, adapted), c_api::Wrap(stream));
  });
}

int coxswain_lora_gated_linear_forward(const coxswain_lora_gated_linear_args* args, void* stream) {
  return c_api::Guarded([&] {
    const c_api::Adapted adapted(args->linear);
    kernels::LoraGatedLinearForward({.linear = c_api::ForwardArgs(args->linear, adapted),
                                     .activation = c_api::Activation(args->activation),
                                     .product = args->product},
                                    c_api::Wrap(stream));
  });
}

int coxswain_lora_gated_linear_backward(const coxswain_lora_gated_linear_args* args, void* stream) {
  return c_api::Guarded([&] {
    const c_api::Adapted adapted(args->linear);
    kernels::LoraGatedLinearBackward({.linear = c_api::BackwardArgs(args->linear, adapted),
                                      .activation = c_api::Activation(args->activation),
                                      .gate_up = args->gate_up},
                                     c_api::Wrap(stream));
  });
}

int coxswain_dropout_apply(const coxswain_dropout_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::DropoutApply(
        {.spec = {.dtype = c_api::Type(args->dtype), .columns = args->columns, .rate = args->rate},
         .mask = c_api::MaskOf(*args),
         .rows = args->rows,
         .x = args->x,
         .y = args->y,
         .accumulate = args->accumulate != 0},
        c_api::Wrap(stream));
  });
}

int coxswain_dora_row_squares(const coxswain_dora_row_squares_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::DoraRowSquares({.dtype = c_api::Type(args->dtype),
                             .rows = args->rows,
                             .columns = args->columns,
                             .w = args->w,
                             .squares = args->squares},
                            c_api::Wrap(stream));
  });
}

int64_t coxswain_dora_factors_workspace_bytes(const coxswain_dora_args* args) {
  return c_api::GuardedBytes(
      [&] { return kernels::DoraFactorsWorkspaceBytes(c_api::Adapted(*args).spec); });
}

int coxswain_dora_factors(const coxswain_dora_args* args, void* stream) {
  return c_api::Guarded([&] {
    const c_api::Adapted adapted(*args);
    kernels::DoraFactors({.spec = adapted.spec,
                          .w = args->w,
                          .squares = args->squares,
                          .a = args->a,
                          .norm = args->norm,
                          .factor = args->factor,
                          .workspace = c_api::Lent(args->workspace)},
                         c_api::Wrap(stream));
  });
}

int coxswain_dora_forward(const coxswain_dora_args* args, void* stream) {
  return c_api::Guarded([&] {
    const c_api::Adapted adapted(*args);
    kernels::DoraForward({.spec = adapted.spec,
                          .rows = args->rows,
                          .u = args->u,
                          .factor = args->factor,
                          .bias = args->bias,
                          .y = args->y},
                         c_api::Wrap(stream));
  });
}

int64_t coxswain_dora_backward_workspace_bytes(const coxswain_dora_args* args) {
  return c_api::GuardedBytes(
      [&] { return kernels::DoraBackwardWorkspaceBytes(c_api::Adapted(*args).spec, args->rows); });
}

int coxswain_dora_backward(const coxswain_dora_args* args, void* stream) {
  return c_api::Guarded([&] {
    const c_api::Adapted adapted(*args);
    kernels::DoraBackward({.spec = adapted.spec,
                           .rows = args->rows,
                           .u = args->u,
                           .norm = args->norm,
                           .factor = args->factor,
                           .dy = args->dy,
                           .workspace = c_api::Lent(args->workspace)},
                          c_api::Wrap(stream));
  });
}

}  // extern "C"
