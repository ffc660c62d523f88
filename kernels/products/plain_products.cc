#include "kernels/products/plain_products.h"

#include "kernels/activations/gates.h"
#include "kernels/products/gemm.h"

namespace coxswain::kernels {
namespace {

GemmSpec ProductSpec(const GatedLinearSpec& spec, bool transpose_b) {
  return {.dtype = spec.dtype, .output_dtype = spec.dtype, .transpose_b = transpose_b};
}
bool IsSilu(const GatedLinearSpec& spec) { return spec.activation == GateActivation::kSilu; }
SwigluSpec ForSwiglu(const GatedLinearSpec& spec) {
  return {.dtype = spec.dtype, .intermediate = spec.intermediate};
}
GegluSpec ForGeglu(const GatedLinearSpec& spec) {
  return {.dtype = spec.dtype,
          .intermediate = spec.intermediate,
          .tanh = spec.activation == GateActivation::kGeluTanh};
}

}  // namespace

bool PlainGatedLinearSupports(const GatedLinearSpec& spec) {
  return spec.hidden > 0 && GemmSupports(ProductSpec(spec, true)) &&
         (IsSilu(spec) ? SwigluSupports(ForSwiglu(spec)) : GegluSupports(ForGeglu(spec)));
}

void PlainGatedLinearForward(const GatedLinearForwardArgs& args, Stream* stream) {
  const int64_t hidden = args.spec.hidden, columns = 2 * args.spec.intermediate;
  Gemm({.spec = ProductSpec(args.spec, true),
        .m = args.rows,
        .n = columns,
        .k = hidden,
        .a = args.x,
        .lda = hidden,
        .b = args.weight,
        .ldb = hidden,
        .c = args.gate_up,
        .ldc = columns,
        .workspace = args.workspace},
       stream);
  PlainGate(args.spec, args.rows, args.gate_up, args.y, stream);
}

void PlainGatedLinearBackward(const GatedLinearBackwardArgs& args, Stream* stream) {
  const int64_t hidden = args.spec.hidden, columns = args.spec.intermediate;
  Gemm({.spec = ProductSpec(args.spec, false),
        .m = args.rows,
        .n = columns,
        .k = hidden,
        .a = args.dout,
        .lda = hidden,
        .b = args.weight,
        .ldb = columns,
        .c = args.y,
        .ldc = columns,
        .workspace = args.workspace},
       stream);
  PlainGateGradient(args.spec, args.rows, args.y, args.gate_up, args.wants_y, stream);
}

void PlainGate(const GatedLinearSpec& spec, int64_t rows, const void* gate_up, void* y,
               Stream* stream) {
  if (y == nullptr) return;
  if (IsSilu(spec)) {
    SwigluForward({.spec = ForSwiglu(spec), .rows = rows, .gate_up = gate_up, .y = y}, stream);
  } else {
    GegluForward({.spec = ForGeglu(spec), .rows = rows, .gate_up = gate_up, .y = y}, stream);
  }
}

void PlainGateGradient(const GatedLinearSpec& spec, int64_t rows, void* dy, void* gate_up,
                       bool wants_y, Stream* stream) {
  void* y = wants_y ? dy : nullptr;
  if (IsSilu(spec)) {
    SwigluBackward({.spec = ForSwiglu(spec), .rows = rows, .dy = dy, .gate_up = gate_up, .y = y},
                   stream);
  } else {
    GegluBackward({.spec = ForGeglu(spec), .rows = rows, .dy = dy, .gate_up = gate_up, .y = y},
                  stream);
  }
}

namespace {

GemmSpec ProductSpec(const RopeSpec& rope) {
  return {.dtype = rope.dtype, .output_dtype = rope.dtype, .transpose_b = true};
}

}  // namespace

bool PlainRotatedLinearSupports(const RotatedLinearSpec& spec) {
  return spec.in_features > 0 && RopeSupports(spec.rope) && GemmSupports(ProductSpec(spec.rope));
}

void PlainRotatedLinearForward(const RotatedLinearArgs& args, Stream* stream) {
  const RopeSpec& spec = args.rope.spec;
  const int64_t columns = (spec.num_heads + 2 * spec.num_kv_heads) * spec.head_dim;
  Gemm({.spec = ProductSpec(spec),
        .m = args.rope.tokens,
        .n = columns,
        .k = args.in_features,
        .a = args.x,
        .lda = args.in_features,
        .b = args.weight,
        .ldb = args.in_features,
        .c = args.rope.qkv,
        .ldc = columns,
        .bias = args.bias,
        .workspace = args.workspace},
       stream);
  RopeForward(args.rope, stream);
}

}  // namespace coxswain::kernels
