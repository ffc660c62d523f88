// Translates the structs of kernels/c_api.h into those of the ops: adapters.
#include <iterator>
#include <span>

#include "kernels/cuda/c_api_calls.h"
#include "kernels/lora_linear.h"

namespace coxswain::kernels::c_api {
namespace {

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
