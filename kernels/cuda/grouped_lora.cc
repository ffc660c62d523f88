// The adapters of a mixture's experts as products of plain_grouped_linear.h: h = x A_e^T;
// y += scale h B_e^T; dh = scale dy B_e; dA_e += dh^T x; dB_e += scale dy^T h; dx += dh A_e.
#include "kernels/grouped_lora.h"

#include "kernels/cuda/plain_grouped_linear.h"
#include "kernels/cuda/stream.h"

namespace coxswain::kernels {
namespace {

constexpr char kForward[] = "GroupedLoraForward", kBackward[] = "GroupedLoraBackward";

void Require(const GroupedLoraSpec& spec, int64_t rows, const char* op) {
  cuda::RequireSupported(GroupedLoraSupports(spec), op);
  cuda::RequireExtent(rows, op, "rows");
}

// A product of the spec's experts and rows, without its operands.
template <typename Args>
cuda::PlainGroupedRows Rows(const Args& args, int64_t in, int64_t out) {
  return {.dtype = args.spec.dtype,
          .offsets = args.offsets,
          .experts = args.spec.experts,
          .rows = args.rows,
          .in = in,
          .out = out};
}
cuda::PlainGroupedWeights Weights(const GroupedLoraBackwardArgs& args, int64_t in, int64_t out) {
  return {.dtype = args.spec.dtype,
          .grad_dtype = args.spec.grad_dtype,
          .offsets = args.offsets,
          .experts = args.spec.experts,
          .in = in,
          .out = out,
          .accumulate = true};
}

void InputGradient(const GroupedLoraBackwardArgs& args, const void* dh, Stream* stream) {
  cuda::PlainGroupedRows dx = Rows(args, args.spec.rank, args.spec.in_features);
  dx.turned = dx.accumulate = true;
  dx.operand = dh;
  dx.weight = args.a;
  dx.result = args.dx;
  cuda::PlainGroupedProduct(dx, kBackward, stream);
}

}  // namespace

bool GroupedLoraSupports(const GroupedLoraSpec& spec) {
  return spec.experts > 0 && spec.in_features > 0 && spec.out_features > 0 && spec.rank > 0;
}

int64_t GroupedLoraBackwardWorkspaceBytes(const GroupedLoraSpec& spec, int64_t rows) {
  return rows * spec.rank * DTypeBytes(spec.dtype);
}

void GroupedLoraForward(const GroupedLoraForwardArgs& args, Stream* stream) {
  const GroupedLoraSpec& spec = args.spec;
  Require(spec, args.rows, kForward);
  if (args.rows == 0) return;
  cuda::PlainGroupedRows h = Rows(args, spec.in_features, spec.rank);
  h.operand = args.x;
  h.weight = args.a;
  h.result = args.h;
  cuda::PlainGroupedProduct(h, kForward, stream);
  cuda::PlainGroupedRows y = Rows(args, spec.rank, spec.out_features);
  y.operand = args.h;
  y.weight = args.b;
  y.scale = spec.scale;
  y.accumulate = true;
  y.result = args.y;
  cuda::PlainGroupedProduct(y, kForward, stream);
}

void GroupedLoraBackward(const GroupedLoraBackwardArgs& args, Stream* stream) {
  const GroupedLoraSpec& spec = args.spec;
  Require(spec, args.rows, kBackward);
  cuda::RequireWorkspace(args.workspace, GroupedLoraBackwardWorkspaceBytes(spec, args.rows),
                         kBackward);
  if (args.rows == 0) return;
  void* dh = args.workspace.data;
  cuda::PlainGroupedRows product = Rows(args, spec.out_features, spec.rank);
  product.turned = true;
  product.operand = args.dy;
  product.weight = args.b;
  product.scale = spec.scale;
  product.result = dh;
  cuda::PlainGroupedProduct(product, kBackward, stream);
  cuda::PlainGroupedWeights da = Weights(args, spec.in_features, spec.rank);
  da.dy = dh;
  da.x = args.x;
  da.dweight = args.da;
  cuda::PlainGroupedProduct(da, kBackward, stream);
  cuda::PlainGroupedWeights db = Weights(args, spec.rank, spec.out_features);
  db.dy = args.dy;
  db.x = args.h;
  db.scale = spec.scale;
  db.dweight = args.db;
  cuda::PlainGroupedProduct(db, kBackward, stream);
  if (args.dx != nullptr) InputGradient(args, dh, stream);
}

}  // namespace coxswain::kernels
