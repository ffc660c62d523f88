#include "worker/engine/ops/fp8_linear.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/plan/buffers/fp8_rows.h"
#include "common/plan/fp8_gather.h"
#include "kernels/products/fp8_gemm.h"
#include "kernels/quantize/fp8.h"
#include "kernels/quantize/fp8_turn.h"
#include "worker/engine/ops/gradient_sum.h"

namespace coxswain::engine {
namespace {

using kernels::Fp8Format;
using kernels::Fp8GemmSpec;
using kernels::Fp8Scaling;

// The parts of an operand [outer, k] in its row of the buffer table.
uint8_t* CodesOf(void* row) { return static_cast<uint8_t*>(row); }
float* ScalesOf(void* row, int64_t outer, int64_t k) {
  if (row == nullptr) return nullptr;
  return reinterpret_cast<float*>(CodesOf(row) + plan::Fp8CodeBytes(outer, k));
}

// A matrix to quantise, and where to.
struct Source {
  const void* values = nullptr;  // [rows, cols]
  int64_t rows = 0, cols = 0;
  void *straight = nullptr, *turned = nullptr;  // null: not wanted
  BoundFp8Amax amax = {};                       // known: of these values
};

void Quantize(const Sweep& sweep, const Source& source, Fp8Scaling scaling, Fp8Format format) {
  if (source.straight == nullptr && source.turned == nullptr) return;
  kernels::Fp8QuantizeArgs args;
  args.dtype = sweep.model.compute_dtype;
  args.format = format;
  args.scaling = scaling;
  args.rows = source.rows;
  args.cols = source.cols;
  args.x = source.values;
  args.ldx = source.cols;
  args.straight = {CodesOf(source.straight), ScalesOf(source.straight, source.rows, source.cols)};
  args.turned = {CodesOf(source.turned), ScalesOf(source.turned, source.cols, source.rows)};
  args.amax = source.amax.known;
  args.expected = source.amax.expected;
  args.observed = source.amax.observed;
  args.workspace = sweep.buffers.scratch;
  kernels::Fp8Quantize(args, sweep.stream);
}

// Evaluations record nothing.
BoundFp8Amax OfRows(const Sweep& sweep, BoundFp8Amax amax) {
  if (!sweep.batch.train) amax.observed = nullptr;
  return amax;
}

void QuantizeWeight(const Sweep& sweep, const BoundLinear& op, void* straight, void* turned,
                    const BoundFp8Amax& amax) {
  const Linear& linear = *op.linear;
  Quantize(sweep, {linear.weight.value, linear.out, linear.in, straight, turned, amax},
           op.fp8.formats.weights, Fp8Format::kE4M3);
}

// The codes that a forward reads, of a weight that keeps none.
void QuantizeReadWeight(const Sweep& sweep, const BoundLinear& op) {
  float* const amax = op.fp8.weight_amax;
  if (amax == nullptr || !MayHaveChanged(sweep, op.linear->weight)) {
    return QuantizeWeight(sweep, op, op.fp8.weight, nullptr, {.known = amax});
  }
  kernels::SetMemory(amax, 0, sizeof(*amax), sweep.stream);
  QuantizeWeight(sweep, op, op.fp8.weight, nullptr, {.observed = amax});
}

// The codes of a weight whose codes are gathered, turned.
void TurnGathered(const Sweep& sweep, const BoundLinear& op) {
  const Linear& linear = *op.linear;
  kernels::Fp8Turn({.rows = linear.out,
                    .cols = linear.in,
                    .codes = linear.weight.codes,
                    .turned = CodesOf(op.fp8.weight_turned)},
                   sweep.stream);
}

Fp8GemmSpec OfForward(const plan::Fp8Formats& formats, kernels::DType dtype) {
  return {.output_dtype = dtype,
          .bias_dtype = dtype,
          .a_scaling = formats.rows,
          .b_scaling = formats.weights};
}

Fp8GemmSpec OfInputGradient(const plan::Fp8Formats& formats, kernels::DType dtype) {
  return {.output_dtype = dtype,
          .bias_dtype = dtype,
          .a_format = formats.gradient,
          .a_scaling = formats.rows,
          .b_scaling = formats.weights};
}

// Sums over all tokens are handed to float32.
Fp8GemmSpec OfWeightGradient(const plan::Fp8Formats& formats, kernels::DType dtype) {
  return {.output_dtype = dtype,
          .bias_dtype = dtype,
          .a_format = formats.gradient,
          .a_scaling = formats.rows,
          .b_scaling = formats.rows,
          .promote = true};
}

kernels::Fp8GemmArgs ProductOf(const Sweep& sweep, int64_t m, int64_t n, int64_t k, void* a,
                               void* b) {
  kernels::Fp8GemmArgs gemm;
  gemm.m = m;
  gemm.n = n;
  gemm.k = k;
  gemm.a = CodesOf(a);
  gemm.a_scales = ScalesOf(a, m, k);
  gemm.b = CodesOf(b);
  gemm.b_scales = ScalesOf(b, n, k);
  gemm.ldc = n;
  gemm.workspace = sweep.buffers.scratch;
  return gemm;
}

// dW = dy^T x, or the same added to dW.
void WeightGradient(const Sweep& sweep, const BoundLinear& op) {
  const Linear& linear = *op.linear;
  kernels::Fp8GemmArgs gemm = ProductOf(sweep, linear.out, linear.in, sweep.batch.tokens,
                                        op.fp8.dy_turned, op.fp8.x_turned);
  gemm.spec = OfWeightGradient(op.fp8.formats, linear.weight.gradient_dtype);
  gemm.beta = FindsGradient(sweep, linear.weight) ? 1.0f : 0.0f;
  gemm.c = linear.weight.gradient;
  if (!TakesTerms(sweep, linear.weight)) return kernels::Fp8Gemm(gemm, sweep.stream);
  gemm.spec.output_dtype = gemm.spec.bias_dtype = kernels::DType::kFloat32;
  const bool accumulate = gemm.beta != 0.0f;
  gemm.beta = 0.0f;
  gemm.c = sweep.buffers.gradient_term.data;
  kernels::Fp8Gemm(gemm, sweep.stream);
  kernels::AddToGradient({.count = linear.out * linear.in,
                          .term = static_cast<const float*>(gemm.c),
                          .accumulate = accumulate,
                          .gradient = linear.weight.gradient,
                          .sum = SumOf(sweep, linear.weight)},
                         sweep.stream);
}

void InputGradient(const Sweep& sweep, const BoundLinear& op) {
  const Linear& linear = *op.linear;
  const bool gathered = op.fp8.weight_scale != nullptr;
  if (gathered) {
    TurnGathered(sweep, op);
  } else if (!op.fp8.keeps_weight) {
    QuantizeWeight(sweep, op, nullptr, op.fp8.weight_turned, {.known = op.fp8.weight_amax});
  }
  kernels::Fp8GemmArgs gemm =
      ProductOf(sweep, sweep.batch.tokens, linear.in, linear.out, op.fp8.dy, op.fp8.weight_turned);
  if (gathered) gemm.b_scales = op.fp8.weight_scale;
  gemm.spec = OfInputGradient(op.fp8.formats, sweep.model.compute_dtype);
  gemm.beta = op.accumulates ? 1.0f : 0.0f;
  gemm.c = op.dx;
  kernels::Fp8Gemm(gemm, sweep.stream);
}

}  // namespace

bool RunsInFp8(const Sweep& sweep, const BoundLinear& op) {
  return op.fp8.on && sweep.cache == CacheUse::kNone;
}

bool MayHaveChanged(const Sweep& sweep, const Tensor& weight) {
  return weight.gradient != nullptr ? sweep.first : sweep.after_load;
}

void QuantizeKeptWeight(const Sweep& sweep, const BoundLinear& op) {
  QuantizeWeight(sweep, op, op.fp8.weight, op.fp8.weight_turned, {});
}

void Fp8Forward(const Sweep& sweep, const BoundLinear& op, const DenseForwardArgs& args) {
  const Linear& linear = *op.linear;
  const int64_t tokens = sweep.batch.tokens;
  void* const kept = sweep.batch.train && op.fp8.keeps_x ? op.fp8.x_turned : nullptr;
  Quantize(sweep, {args.x, tokens, linear.in, op.fp8.x, kept, OfRows(sweep, op.fp8.amax_of_x)},
           op.fp8.formats.rows, Fp8Format::kE4M3);
  const bool gathered = op.fp8.weight_scale != nullptr;
  if (!gathered && !op.fp8.keeps_weight) QuantizeReadWeight(sweep, op);
  kernels::Fp8GemmArgs gemm =
      ProductOf(sweep, tokens, linear.out, linear.in, op.fp8.x, op.fp8.weight);
  if (gathered) gemm.b_scales = op.fp8.weight_scale;
  gemm.spec = OfForward(op.fp8.formats, sweep.model.compute_dtype);
  gemm.beta = args.accumulate ? 1.0f : 0.0f;
  gemm.c = args.y;
  gemm.addend = args.addend;
  gemm.bias = args.bias;
  kernels::Fp8Gemm(gemm, sweep.stream);
}

void Fp8Backward(const Sweep& sweep, const BoundLinear& op, const void* dy) {
  const Linear& linear = *op.linear;
  const int64_t tokens = sweep.batch.tokens;
  const bool trained = linear.weight.gradient != nullptr;
  Quantize(sweep,
           {dy, tokens, linear.out, op.dx == nullptr ? nullptr : op.fp8.dy,
            trained ? op.fp8.dy_turned : nullptr, OfRows(sweep, op.fp8.amax_of_dy)},
           op.fp8.formats.rows, op.fp8.formats.gradient);
  if (trained) {
    if (!op.fp8.keeps_x) {
      Quantize(sweep,
               {op.x, tokens, linear.in, nullptr, op.fp8.x_turned, OfRows(sweep, op.fp8.amax_of_x)},
               op.fp8.formats.rows, Fp8Format::kE4M3);
    }
    WeightGradient(sweep, op);
  }
  if (op.dx != nullptr) InputGradient(sweep, op);
}

absl::Status CheckFp8(const plan::Plan& plan, const Model& model) {
  if (plan.fp8.recipe == plan::Fp8Recipe::kNone) return absl::OkStatus();
  const plan::Fp8Formats formats = plan::FormatsOf(plan.fp8);
  for (const kernels::Fp8GemmSpec& spec :
       {OfForward(formats, model.compute_dtype), OfInputGradient(formats, model.compute_dtype),
        OfWeightGradient(formats, kernels::DType::kFloat32)}) {
    if (kernels::Fp8GemmSupports(spec)) continue;
    return absl::UnimplementedError(absl::StrCat(
        "precision.fp8.recipe is ", plan::NameOf(plan.fp8.recipe),
        ", whose products this GPU or build has not; tensorwise takes compute capability 8.9, the "
        "others 9.0; set precision.compute: auto"));
  }
  return absl::OkStatus();
}

int64_t Fp8ScratchBytes(const Model& model, const Linear& linear, const plan::Fp8Formats& formats,
                        int64_t tokens) {
  const int64_t in = linear.in, out = linear.out;
  const auto quantize = [&](Fp8Scaling scaling, int64_t rows, int64_t cols) {
    return kernels::Fp8QuantizeWorkspaceBytes(scaling, rows, cols);
  };
  const Fp8GemmSpec forward = OfForward(formats, model.compute_dtype);
  const Fp8GemmSpec input = OfInputGradient(formats, model.compute_dtype);
  int64_t bytes = std::max({quantize(formats.rows, tokens, in), quantize(formats.rows, tokens, out),
                            quantize(formats.weights, out, in),
                            kernels::Fp8GemmWorkspaceBytes(forward, tokens, out, in),
                            kernels::Fp8GemmWorkspaceBytes(input, tokens, in, out)});
  if (linear.weight.codes != nullptr) {
    const int64_t columns = kernels::kFp8Block;  // as weight_codes.cc reads a rank's part
    bytes = std::max(bytes, quantize(formats.weights, (in * out + columns - 1) / columns, columns));
  }
  if (linear.weight.gradient == nullptr) return bytes;
  const Fp8GemmSpec weight = OfWeightGradient(formats, linear.weight.gradient_dtype);
  return std::max(bytes, kernels::Fp8GemmWorkspaceBytes(weight, out, in, tokens));
}

}  // namespace coxswain::engine
