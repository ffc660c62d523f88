// Translates the structs of kernels/c_api/c_api.h into those of the ops: embedding, rows, loss and
// maxima.
#include "kernels/c_api/calls.h"
#include "kernels/loss/cross_entropy.h"
#include "kernels/loss/cut_cross_entropy.h"
#include "kernels/tensors/rows.h"

namespace coxswain::kernels::c_api {
namespace {

EmbeddingSpec SpecOf(const coxswain_embedding_args& args) {
  return {.dtype = Type(args.dtype),
          .grad_dtype = Type(args.grad_dtype),
          .vocab = args.vocab,
          .hidden = args.hidden,
          .scale = args.scale == 0.0f ? 1.0f : args.scale};
}

CutCrossEntropySpec SpecOf(const coxswain_cut_cross_entropy_args& args) {
  return {.dtype = Type(args.dtype),
          .weight_gradient_dtype = Type(args.grad_dtype),
          .hidden = args.hidden,
          .vocab = args.vocab,
          .logit_scale = args.logit_scale == 0.0f ? 1.0f : args.logit_scale,
          .label_smoothing = args.label_smoothing,
          .z_loss = args.z_loss,
          .softcap = args.softcap};
}

RowGatherArgs Gather(const coxswain_row_gather_args& args) {
  return {.spec = {.dtype = Type(args.dtype), .columns = args.columns},
          .rows = args.rows,
          .index = args.index,
          .in = args.in,
          .out = args.out};
}

}  // namespace
}  // namespace coxswain::kernels::c_api

namespace kernels = coxswain::kernels;
namespace c_api = coxswain::kernels::c_api;

extern "C" {

int coxswain_cross_entropy(const coxswain_cross_entropy_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::CrossEntropy({.spec = {.dtype = c_api::Type(args->dtype),
                                    .vocab = args->vocab,
                                    .label_smoothing = args->label_smoothing,
                                    .z_loss = args->z_loss,
                                    .softcap = args->softcap},
                           .rows = args->rows,
                           .logits = args->logits,
                           .gradient = args->gradient,
                           .ld = args->ld,
                           .targets = args->targets,
                           .gradient_scale = args->gradient_scale,
                           .row_weights = args->row_weights,
                           .loss = args->loss,
                           .nll = args->nll},
                          c_api::Wrap(stream));
  });
}

int64_t coxswain_cut_cross_entropy_workspace_bytes(const coxswain_cut_cross_entropy_args* args) {
  return c_api::GuardedBytes(
      [&] { return kernels::CutCrossEntropyUsualBytes(c_api::SpecOf(*args), args->rows); });
}

int coxswain_cut_cross_entropy_forward(const coxswain_cut_cross_entropy_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::CutCrossEntropyForward({.spec = c_api::SpecOf(*args),
                                     .rows = args->rows,
                                     .x = args->x,
                                     .weight = args->weight,
                                     .targets = args->targets,
                                     .loss = args->loss,
                                     .nll = args->nll,
                                     .hits = args->hits,
                                     .statistics = args->statistics,
                                     .workspace = c_api::Lent(args->workspace)},
                                    c_api::Wrap(stream));
  });
}

int coxswain_cut_cross_entropy_backward(const coxswain_cut_cross_entropy_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::CutCrossEntropyBackward({.spec = c_api::SpecOf(*args),
                                      .rows = args->rows,
                                      .x = args->x,
                                      .weight = args->weight,
                                      .targets = args->targets,
                                      .statistics = args->statistics,
                                      .gradient_scale = args->gradient_scale,
                                      .row_weights = args->row_weights,
                                      .dx = args->dx,
                                      .dweight = args->dweight,
                                      .accumulate = args->accumulate != 0,
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
                                .begin = args->begin,
                                .end = args->end == 0 ? -1 : args->end,
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

int coxswain_target_hits(const coxswain_target_hits_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::TargetHits({.spec = {.dtype = c_api::Type(args->dtype), .vocab = args->vocab},
                         .rows = args->rows,
                         .logits = args->logits,
                         .ld = args->ld,
                         .targets = args->targets,
                         .hits = args->hits},
                        c_api::Wrap(stream));
  });
}

int coxswain_argmax(const coxswain_argmax_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::Argmax({.spec = {.dtype = c_api::Type(args->dtype), .columns = args->width},
                     .rows = args->rows,
                     .values = args->values,
                     .ld = args->ld,
                     .columns = args->columns},
                    c_api::Wrap(stream));
  });
}

}  // extern "C"
