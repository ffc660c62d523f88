// Translates the structs of kernels/c_api/c_api.h into those of the ops: whole tensors.
#include "kernels/c_api/calls.h"
#include "kernels/tensors/whole_tensors.h"

namespace coxswain::kernels::c_api {
namespace {

RandomFillKind KindOf(int32_t kind) {
  if (kind < COXSWAIN_CONSTANT || kind > COXSWAIN_NORMAL) {
    throw std::invalid_argument("kind is " + std::to_string(kind) +
                                ", must be one of coxswain_fill");
  }
  return kind == COXSWAIN_CONSTANT  ? RandomFillKind::kConstant
         : kind == COXSWAIN_UNIFORM ? RandomFillKind::kUniform
                                    : RandomFillKind::kNormal;
}

}  // namespace
}  // namespace coxswain::kernels::c_api

namespace kernels = coxswain::kernels;
namespace c_api = coxswain::kernels::c_api;

extern "C" {

int coxswain_add(const coxswain_add_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::Add({.dtype = c_api::Type(args->dtype),
                  .x_dtype = c_api::Type(args->x_dtype),
                  .count = args->count,
                  .alpha = args->alpha == 0.0f ? 1.0f : args->alpha,
                  .x = args->x,
                  .y = args->y},
                 c_api::Wrap(stream));
  });
}

int coxswain_scale(const coxswain_scale_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::Scale({.dtype = c_api::Type(args->dtype),
                    .count = args->count,
                    .factor = args->factor,
                    .x = args->x},
                   c_api::Wrap(stream));
  });
}

int coxswain_convert(const coxswain_convert_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::Convert({.from = c_api::Type(args->from),
                      .to = c_api::Type(args->to),
                      .count = args->count,
                      .in = args->in,
                      .out = args->out},
                     c_api::Wrap(stream));
  });
}

int coxswain_random_fill(const coxswain_random_fill_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::RandomFill({.dtype = c_api::Type(args->dtype),
                         .kind = c_api::KindOf(args->kind),
                         .value = args->value,
                         .key = {args->key[0], args->key[1]},
                         .counter = {args->counter[0], args->counter[1]},
                         .first = args->first,
                         .count = args->count,
                         .out = args->out},
                        c_api::Wrap(stream));
  });
}

int coxswain_checksum(const coxswain_checksum_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::Checksum({.dtype = c_api::Type(args->dtype),
                       .count = args->count,
                       .values = args->values,
                       .sum = args->sum},
                      c_api::Wrap(stream));
  });
}

int coxswain_all_zero(const coxswain_all_zero_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::AllZero({.dtype = c_api::Type(args->dtype),
                      .count = args->count,
                      .values = args->values,
                      .all_zero = args->all_zero},
                     c_api::Wrap(stream));
  });
}

int coxswain_sum(const coxswain_sum_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::Sum({.count = args->count,
                  .values = args->values,
                  .sum = args->sum,
                  .accumulate = args->accumulate != 0},
                 c_api::Wrap(stream));
  });
}

}  // extern "C"
