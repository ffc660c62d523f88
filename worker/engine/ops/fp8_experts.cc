#include "worker/engine/ops/fp8_experts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/plan/buffers/fp8_rows.h"
#include "kernels/experts/grouped_fp8_linear.h"
#include "kernels/quantize/fp8.h"
#include "worker/engine/ops/op_specs.h"

namespace coxswain::engine {
namespace {

using kernels::Fp8Format;
using kernels::Fp8Scaling;
using kernels::GroupedFp8LinearSpec;

// An operand of so many rows in its row of the buffer table.
struct Operand {
  uint8_t* codes = nullptr;
  float* scales = nullptr;
};
Operand OperandOf(void* row, int64_t rows, int64_t k) {
  if (row == nullptr) return {};
  auto* const codes = static_cast<uint8_t*>(row);
  return {codes, reinterpret_cast<float*>(codes + plan::Fp8CodeBytes(rows, k))};
}

int64_t RowsOf(const Sweep& sweep, const BoundGroupedLinear& op) {
  return sweep.batch.tokens * op.rows.chosen;
}

// Rows behind those of experts are 0, and raise no amax.
Operand QuantizeRows(const Sweep& sweep, const BoundGroupedLinear& op, const void* values,
                     int64_t width, void* row, Fp8Format format, const BoundFp8Amax& amax) {
  const int64_t rows = RowsOf(sweep, op);
  const Operand operand = OperandOf(row, rows, width);
  kernels::Fp8QuantizeArgs args;
  args.dtype = sweep.model.compute_dtype;
  args.format = format;
  args.rows = rows;
  args.cols = args.ldx = width;
  args.x = values;
  args.expected = amax.expected;
  if (sweep.batch.train) args.observed = amax.observed;
  args.straight = {operand.codes, operand.scales};
  args.workspace = sweep.buffers.scratch;
  kernels::Fp8Quantize(args, sweep.stream);
  return operand;
}

void QuantizeWeights(const Sweep& sweep, const BoundGroupedLinear& op, void* straight,
                     void* turned) {
  if (straight == nullptr && turned == nullptr) return;
  const int64_t experts = op.spec.experts, in = op.spec.in_features, out = op.spec.out_features;
  const Operand by_out = OperandOf(straight, experts * out, in);
  const Operand by_in = OperandOf(turned, experts * in, out);
  kernels::Fp8QuantizeArgs args;
  args.dtype = sweep.model.compute_dtype;
  args.rows = out;
  args.cols = args.ldx = in;
  args.matrices = experts;
  args.x = op.linear->weight.value;
  args.straight = {by_out.codes, by_out.scales};
  args.turned = {by_in.codes, by_in.scales};
  args.workspace = sweep.buffers.scratch;
  kernels::Fp8Quantize(args, sweep.stream);
}

GroupedFp8LinearSpec OfForward(const kernels::GroupedLinearSpec& spec) {
  return {.dtype = spec.dtype,
          .experts = spec.experts,
          .in_features = spec.in_features,
          .out_features = spec.out_features};
}
GroupedFp8LinearSpec OfInputGradient(const kernels::GroupedLinearSpec& spec, Fp8Format gradient) {
  return {.dtype = spec.dtype,
          .row_format = gradient,
          .experts = spec.experts,
          .in_features = spec.out_features,
          .out_features = spec.in_features};
}

struct RowsTimesExperts {
  GroupedFp8LinearSpec spec;
  Operand rows;
  void* weights = nullptr;
  const void* bias = nullptr;
  void* y = nullptr;
};

void Multiply(const Sweep& sweep, const BoundGroupedLinear& op, const RowsTimesExperts& product) {
  const GroupedFp8LinearSpec& spec = product.spec;
  const Operand weights =
      OperandOf(product.weights, spec.experts * spec.out_features, spec.in_features);
  kernels::GroupedFp8Linear({.spec = spec,
                             .rows = RowsOf(sweep, op),
                             .offsets = op.rows.offsets,
                             .x = product.rows.codes,
                             .x_scale = product.rows.scales,
                             .weight = weights.codes,
                             .weight_scales = weights.scales,
                             .bias = product.bias,
                             .y = product.y,
                             .workspace = sweep.buffers.scratch},
                            sweep.stream);
}

}  // namespace

bool RunsInFp8(const Sweep& sweep, const BoundGroupedLinear& op) {
  return op.fp8.on && sweep.cache == CacheUse::kNone;
}

void QuantizeKeptWeight(const Sweep& sweep, const BoundGroupedLinear& op) {
  QuantizeWeights(sweep, op, op.fp8.weight, op.fp8.weight_turned);
}

void Fp8ExpertsForward(const Sweep& sweep, const BoundGroupedLinear& op) {
  const Operand x = QuantizeRows(sweep, op, op.x, op.spec.in_features, op.fp8.x, Fp8Format::kE4M3,
                                 op.fp8.amax_of_x);
  if (!op.fp8.keeps_weight) QuantizeWeights(sweep, op, op.fp8.weight, nullptr);
  Multiply(sweep, op, {OfForward(op.spec), x, op.fp8.weight, op.linear->bias.value, op.y});
}

void Fp8ExpertsInputGradient(const Sweep& sweep, const BoundGroupedLinear& op) {
  const Fp8Format format = op.fp8.formats.gradient;
  const Operand dy =
      QuantizeRows(sweep, op, op.dy, op.spec.out_features, op.fp8.dy, format, op.fp8.amax_of_dy);
  if (!op.fp8.keeps_weight) QuantizeWeights(sweep, op, nullptr, op.fp8.weight_turned);
  Multiply(sweep, op, {OfInputGradient(op.spec, format), dy, op.fp8.weight_turned, nullptr, op.dx});
}

absl::Status CheckFp8Experts(const plan::Plan& plan, const Model& model) {
  const Fp8Format gradient = plan::FormatsOf(plan.fp8).gradient;
  bool missing = false;
  plan::VisitFp8Experts(plan, [&](const model::GroupedLinearOp& op, int64_t /*layer*/) {
    const kernels::GroupedLinearSpec spec = ExpertsSpec(model, op);
    missing = missing || !kernels::GroupedFp8LinearSupports(OfForward(spec)) ||
              !kernels::GroupedFp8LinearSupports(OfInputGradient(spec, gradient));
  });
  if (!missing) return absl::OkStatus();
  return absl::UnimplementedError(
      "precision.fp8.experts is fp8, whose products this GPU or build has not; they take compute "
      "capability 9.0; set precision.fp8.experts: bfloat16");
}

int64_t Fp8ExpertsScratchBytes(const Model& model, const model::GroupedLinearOp& op,
                               const plan::Fp8Formats& formats, int64_t tokens) {
  const int64_t rows = plan::RowsOf(op, tokens);
  const int64_t in = op.in_features, out = op.out_features;
  const auto quantize = [](int64_t matrices, int64_t height, int64_t width) {
    return matrices * kernels::Fp8QuantizeWorkspaceBytes(Fp8Scaling::kTensor, height, width);
  };
  const kernels::GroupedLinearSpec spec = ExpertsSpec(model, op);
  return std::max(
      {quantize(1, rows, in), quantize(1, rows, out), quantize(op.experts, out, in),
       kernels::GroupedFp8LinearWorkspaceBytes(OfForward(spec), rows),
       kernels::GroupedFp8LinearWorkspaceBytes(OfInputGradient(spec, formats.gradient), rows)});
}

}  // namespace coxswain::engine
