#include "kernels/cuda/experts/plain_grouped_lora.h"

#include "kernels/cuda/experts/plain_grouped_linear.h"

namespace coxswain::kernels::cuda {
namespace {

constexpr char kForward[] = "GroupedLoraForward", kBackward[] = "GroupedLoraBackward";

// A product of the spec's experts and rows, without its operands.
template <typename Args>
PlainGroupedRows Rows(const Args& args, int64_t in, int64_t out) {
  return {.dtype = args.spec.dtype,
          .offsets = args.offsets,
          .experts = args.spec.experts,
          .rows = args.rows,
          .in = in,
          .out = out};
}
PlainGroupedWeights Weights(const GroupedLoraBackwardArgs& args, int64_t in, int64_t out) {
  return {.dtype = args.spec.dtype,
          .grad_dtype = args.spec.grad_dtype,
          .offsets = args.offsets,
          .experts = args.spec.experts,
          .in = in,
          .out = out,
          .accumulate = true};
}

void InputGradient(const GroupedLoraBackwardArgs& args, const void* dh, Stream* stream) {
  PlainGroupedRows dx = Rows(args, args.spec.rank, args.spec.in_features);
  dx.turned = dx.accumulate = true;
  dx.operand = dh;
  dx.weight = args.a;
  dx.result = args.dx;
  PlainGroupedProduct(dx, kBackward, stream);
}

}  // namespace

void PlainGroupedLora(const GroupedLoraForwardArgs& args, Stream* stream) {
  const GroupedLoraSpec& spec = args.spec;
  PlainGroupedRows h = Rows(args, spec.in_features, spec.rank);
  h.operand = args.x;
  h.weight = args.a;
  h.result = args.h;
  PlainGroupedProduct(h, kForward, stream);
  PlainGroupedRows y = Rows(args, spec.rank, spec.out_features);
  y.operand = args.h;
  y.weight = args.b;
  y.scale = spec.scale;
  y.accumulate = true;
  y.result = args.y;
  PlainGroupedProduct(y, kForward, stream);
}

void PlainGroupedLora(const GroupedLoraBackwardArgs& args, void* dh, Stream* stream) {
  const GroupedLoraSpec& spec = args.spec;
  PlainGroupedRows product = Rows(args, spec.out_features, spec.rank);
  product.turned = true;
  product.operand = args.dy;
  product.weight = args.b;
  product.scale = spec.scale;
  product.result = dh;
  PlainGroupedProduct(product, kBackward, stream);
  PlainGroupedWeights da = Weights(args, spec.in_features, spec.rank);
  da.dy = dh;
  da.x = args.x;
  da.dweight = args.da;
  PlainGroupedProduct(da, kBackward, stream);
  PlainGroupedWeights db = Weights(args, spec.rank, spec.out_features);
  db.dy = args.dy;
  db.x = args.h;
  db.scale = spec.scale;
  db.dweight = args.db;
  PlainGroupedProduct(db, kBackward, stream);
  if (args.dx != nullptr) InputGradient(args, dh, stream);
}

}  // namespace coxswain::kernels::cuda
