// Translates the structs of kernels/c_api/c_api.h into those of the ops: a mixture of experts, but
// its products (grouped_linear_calls.cc).
#include <stdexcept>
#include <string>

#include "kernels/c_api/calls.h"
#include "kernels/experts/expert_rows.h"
#include "kernels/experts/expert_use.h"
#include "kernels/experts/route.h"
#include "kernels/experts/router_loss.h"

namespace coxswain::kernels::c_api {
namespace {

RouterScore ScoreOf(int32_t score) {
  if (score != COXSWAIN_SOFTMAX && score != COXSWAIN_SIGMOID) {
    throw std::invalid_argument("score is " + std::to_string(score) +
                                ", must be COXSWAIN_SOFTMAX or COXSWAIN_SIGMOID");
  }
  return score == COXSWAIN_SOFTMAX ? RouterScore::kSoftmax : RouterScore::kSigmoid;
}

RouteSpec SpecOf(const coxswain_route_args& args) {
  return {.experts = args.experts,
          .chosen = args.chosen,
          .score = ScoreOf(args.score),
          .groups = args.groups == 0 ? 1 : args.groups,
          .top_groups = args.top_groups == 0 ? 1 : args.top_groups,
          .renormalise = args.renormalise != 0,
          .scale = args.scale == 0.0f ? 1.0f : args.scale};
}

SortByExpertSpec SpecOf(const coxswain_sort_by_expert_args& args) {
  return {.experts = args.experts, .chosen = args.chosen};
}

DispatchSpec SpecOf(const coxswain_dispatch_args& args) {
  return {.dtype = Type(args.dtype), .hidden = args.hidden, .chosen = args.chosen};
}

CombineSpec SpecOf(const coxswain_combine_args& args) {
  return {.dtype = Type(args.dtype), .hidden = args.hidden, .chosen = args.chosen};
}

SigmoidGateSpec SpecOf(const coxswain_sigmoid_gate_args& args) {
  return {.dtype = Type(args.dtype), .columns = args.columns};
}

ExpertUseSpec SpecOf(const coxswain_expert_use_args& args) {
  return {.experts = args.experts, .chosen = args.chosen, .score = ScoreOf(args.score)};
}

RouterLossSpec SpecOf(const coxswain_router_loss_args& args) {
  return {.experts = args.experts, .chosen = args.chosen};
}

}  // namespace
}  // namespace coxswain::kernels::c_api

namespace kernels = coxswain::kernels;
namespace c_api = coxswain::kernels::c_api;

extern "C" {

int coxswain_route_forward(const coxswain_route_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::RouteForward({.spec = c_api::SpecOf(*args),
                           .tokens = args->tokens,
                           .logits = args->logits,
                           .bias = args->bias,
                           .padding = args->padding,
                           .ids = args->ids,
                           .weights = args->weights},
                          c_api::Wrap(stream));
  });
}

int coxswain_route_backward(const coxswain_route_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::RouteBackward({.spec = c_api::SpecOf(*args),
                            .tokens = args->tokens,
                            .logits = args->logits,
                            .ids = args->ids,
                            .dweights = args->dweights,
                            .dlogits = args->dlogits},
                           c_api::Wrap(stream));
  });
}

int64_t coxswain_sort_by_expert_workspace_bytes(const coxswain_sort_by_expert_args* args) {
  return c_api::GuardedBytes(
      [&] { return kernels::SortByExpertWorkspaceBytes(c_api::SpecOf(*args), args->tokens); });
}

int coxswain_sort_by_expert(const coxswain_sort_by_expert_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::SortByExpert({.spec = c_api::SpecOf(*args),
                           .tokens = args->tokens,
                           .ids = args->ids,
                           .order = args->order,
                           .places = args->places,
                           .offsets = args->offsets,
                           .counts = args->counts,
                           .workspace = c_api::Lent(args->workspace)},
                          c_api::Wrap(stream));
  });
}

int coxswain_dispatch_forward(const coxswain_dispatch_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::DispatchForward({.spec = c_api::SpecOf(*args),
                              .tokens = args->tokens,
                              .order = args->order,
                              .places = args->places,
                              .x = args->x,
                              .rows = args->rows},
                             c_api::Wrap(stream));
  });
}

int coxswain_dispatch_backward(const coxswain_dispatch_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::DispatchBackward({.spec = c_api::SpecOf(*args),
                               .tokens = args->tokens,
                               .places = args->places,
                               .drows = args->drows,
                               .dx = args->dx},
                              c_api::Wrap(stream));
  });
}

int coxswain_combine_forward(const coxswain_combine_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::CombineForward({.spec = c_api::SpecOf(*args),
                             .tokens = args->tokens,
                             .places = args->places,
                             .weights = args->weights,
                             .rows = args->rows,
                             .y = args->y},
                            c_api::Wrap(stream));
  });
}

int coxswain_combine_backward(const coxswain_combine_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::CombineBackward({.spec = c_api::SpecOf(*args),
                              .tokens = args->tokens,
                              .order = args->order,
                              .places = args->places,
                              .weights = args->weights,
                              .rows = args->rows,
                              .dy = args->dy,
                              .drows = args->drows,
                              .dweights = args->dweights},
                             c_api::Wrap(stream));
  });
}

int coxswain_sigmoid_gate_forward(const coxswain_sigmoid_gate_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::SigmoidGateForward({.spec = c_api::SpecOf(*args),
                                 .rows = args->rows,
                                 .logits = args->logits,
                                 .x = args->x,
                                 .y = args->y},
                                c_api::Wrap(stream));
  });
}

int coxswain_sigmoid_gate_backward(const coxswain_sigmoid_gate_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::SigmoidGateBackward({.spec = c_api::SpecOf(*args),
                                  .rows = args->rows,
                                  .logits = args->logits,
                                  .x = args->x,
                                  .dy = args->dy,
                                  .dx = args->dx,
                                  .dlogits = args->dlogits},
                                 c_api::Wrap(stream));
  });
}

int64_t coxswain_router_loss_sums_workspace_bytes(const coxswain_router_loss_args* args) {
  return c_api::GuardedBytes(
      [&] { return kernels::RouterLossSumsWorkspaceBytes(c_api::SpecOf(*args), args->tokens); });
}

int coxswain_router_loss_sums(const coxswain_router_loss_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::RouterLossSums({.spec = c_api::SpecOf(*args),
                             .tokens = args->tokens,
                             .logits = args->logits,
                             .ids = args->ids,
                             .accumulate = args->accumulate != 0,
                             .sums = args->sums,
                             .workspace = c_api::Lent(args->workspace)},
                            c_api::Wrap(stream));
  });
}

int coxswain_router_loss(const coxswain_router_loss_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::RouterLoss({.spec = c_api::SpecOf(*args), .sums = args->sums, .losses = args->losses},
                        c_api::Wrap(stream));
  });
}

int coxswain_router_loss_gradient(const coxswain_router_loss_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::RouterLossGradient({.spec = c_api::SpecOf(*args),
                                 .tokens = args->tokens,
                                 .logits = args->logits,
                                 .ids = args->ids,
                                 .sums = args->sums,
                                 .factors = args->factors,
                                 .dlogits = args->dlogits},
                                c_api::Wrap(stream));
  });
}

int64_t coxswain_expert_use_workspace_bytes(const coxswain_expert_use_args* args) {
  return c_api::GuardedBytes(
      [&] { return kernels::ExpertUseWorkspaceBytes(c_api::SpecOf(*args), args->tokens); });
}

int coxswain_expert_use(const coxswain_expert_use_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::ExpertUse({.spec = c_api::SpecOf(*args),
                        .tokens = args->tokens,
                        .logits = args->logits,
                        .ids = args->ids,
                        .counts = args->counts,
                        .sums = args->sums,
                        .workspace = c_api::Lent(args->workspace)},
                       c_api::Wrap(stream));
  });
}

int coxswain_balance_bias(const coxswain_balance_bias_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::BalanceBias({.routers = args->routers,
                          .experts = args->experts,
                          .stride = args->stride,
                          .counts = args->counts,
                          .rate = args->rate,
                          .skip = args->skip,
                          .bias = args->bias},
                         c_api::Wrap(stream));
  });
}

}  // extern "C"
