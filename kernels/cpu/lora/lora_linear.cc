// Products of rank g r on BLAS beside those with W. With dropout, x is dropped 128 rows at a time
// into the workspace, and again in backward, so that no dropped copy of x is kept; block order
// fixes the order of sums.
#include <algorithm>

#include "kernels/cpu/check.h"
#include "kernels/cpu/products/sgemm.h"
#include "kernels/lora/lora_base.h"
#include "kernels/lora/lora_gated_linear.h"
#include "kernels/lora/lora_linear.h"

namespace coxswain::kernels {
namespace {

constexpr int64_t kDropRows = 128;

int64_t DropBytes(const LoraLinearSpec& spec, int64_t rows) {
  if (spec.dropout_rate == 0.0f) return 0;
  return cpu::AlignedFloatBytes(std::min(rows, kDropRows) * spec.in_features);
}

struct RowBlock {
  int64_t begin, rows;
};

// Blocks of rows that share one dropped copy; all rows at once without dropout.
template <typename Fn>
void ForEachRowBlock(const LoraLinearSpec& spec, int64_t rows, const Fn& fn) {
  const int64_t step = spec.dropout_rate == 0.0f ? std::max<int64_t>(rows, 1) : kDropRows;
  for (int64_t begin = 0; begin < rows; begin += step) {
    fn(RowBlock{begin, std::min(step, rows - begin)});
  }
}

struct DropRequest {
  const LoraLinearSpec& spec;
  DropoutMask mask;
  RowBlock block;
  bool accumulate;
};

void Drop(const DropRequest& request, const float* x, float* y, Stream* stream) {
  DropoutArgs args;
  args.spec = {.columns = request.spec.in_features, .rate = request.spec.dropout_rate};
  args.mask = request.mask;
  args.mask.bins += request.block.begin;
  args.mask.positions += request.block.begin;
  args.rows = request.block.rows;
  args.x = x;
  args.y = y;
  args.accumulate = request.accumulate;
  DropoutApply(args, stream);
}

// What A is multiplied with for these rows: x itself, or its dropped copy in `scratch`.
const float* InputRows(const LoraLinearSpec& spec, const DropoutMask& mask, RowBlock block,
                       const float* x, float* scratch) {
  const float* rows = x + block.begin * spec.in_features;
  if (spec.dropout_rate == 0.0f) return rows;
  Drop({spec, mask, block, false}, rows, scratch, nullptr);
  return scratch;
}

// The workspace of backward: g, then a block of dropped rows.
float* GradientOfH(const LoraLinearBackwardArgs& args) {
  return static_cast<float*>(args.workspace.data);
}
float* DroppedRows(const LoraLinearBackwardArgs& args) {
  return GradientOfH(args) + cpu::AlignedFloatBytes(args.rows * args.spec.stacked_rank()) / 4;
}

template <typename Args>
void Validate(const Args& args, int64_t workspace_bytes) {
  cpu::RequireSupported(LoraLinearSupports(args.spec), "LoraLinear");
  cpu::RequireWorkspace(args.workspace, workspace_bytes, "LoraLinear");
}

}  // namespace

bool LoraLinearSupports(const LoraLinearSpec& spec) {
  if (spec.dtype != DType::kFloat32 || spec.grad_dtype != DType::kFloat32) return false;
  if (spec.members.empty() || spec.rank < 1 || spec.columns() > spec.ldy) return false;
  for (const LoraMember& member : spec.members) {
    if (member.out_features < 1 || member.column_offset < 0 ||
        member.column_offset + member.out_features > spec.columns()) {
      return false;
    }
  }
  return DropoutSupports({.columns = spec.in_features, .rate = spec.dropout_rate});
}

int64_t LoraLinearForwardWorkspaceBytes(const LoraLinearSpec& spec, int64_t rows) {
  return DropBytes(spec, rows);
}

int64_t LoraLinearBackwardWorkspaceBytes(const LoraLinearSpec& spec, int64_t rows) {
  return cpu::AlignedFloatBytes(rows * spec.stacked_rank()) + DropBytes(spec, rows);
}

void LoraProjection(const LoraLinearForwardArgs& args, Stream* /*stream*/) {
  const LoraLinearSpec& spec = args.spec;
  const int64_t stacked = spec.stacked_rank();
  ForEachRowBlock(spec, args.rows, [&](RowBlock block) {
    const float* x = InputRows(spec, args.mask, block, static_cast<const float*>(args.x),
                               static_cast<float*>(args.workspace.data));
    cpu::Sgemm({.m = block.rows,
                .n = stacked,
                .k = spec.in_features,
                .alpha = spec.scale,
                .a = {x, spec.in_features},
                .b = {static_cast<const float*>(args.a), spec.in_features, true},
                .beta = 0.0f,
                .c = static_cast<float*>(args.h) + block.begin * stacked,
                .stride_c = stacked});
  });
}

void LoraOutput(const LoraLinearForwardArgs& args, Stream* stream) {
  const LoraLinearSpec& spec = args.spec;
  LoraBaseOutput(args, args.accumulate_y, stream);
  for (size_t j = 0; j < spec.members.size(); ++j) {
    const LoraMember& member = spec.members[j];
    const float* h = static_cast<const float*>(args.h) + static_cast<int64_t>(j) * spec.rank;
    cpu::Sgemm({.m = args.rows,
                .n = member.out_features,
                .k = spec.rank,
                .alpha = 1.0f,
                .a = {h, spec.stacked_rank()},
                .b = {static_cast<const float*>(member.b), spec.rank, true},
                .beta = 1.0f,
                .c = static_cast<float*>(args.y) + member.column_offset,
                .stride_c = spec.ldy});
  }
}

void LoraMemberGradients(const LoraLinearBackwardArgs& args, Stream* /*stream*/) {
  const LoraLinearSpec& spec = args.spec;
  const int64_t stacked = spec.stacked_rank();
  for (size_t j = 0; j < spec.members.size(); ++j) {
    const LoraMember& member = spec.members[j];
    const int64_t first = static_cast<int64_t>(j) * spec.rank;
    const float* dy = static_cast<const float*>(args.dy) + member.column_offset;
    const float* h = static_cast<const float*>(args.h) + first;
    cpu::Sgemm({.m = member.out_features,
                .n = spec.rank,
                .k = args.rows,
                .alpha = 1.0f,
                .a = {dy, spec.ldy, true},
                .b = {h, stacked},
                .beta = 1.0f,
                .c = static_cast<float*>(member.db),
                .stride_c = spec.rank});
    cpu::Sgemm({.m = args.rows,
                .n = spec.rank,
                .k = member.out_features,
                .alpha = spec.scale,
                .a = {dy, spec.ldy},
                .b = {static_cast<const float*>(member.b), spec.rank},
                .beta = 0.0f,
                .c = GradientOfH(args) + first,
                .stride_c = stacked});
  }
}

void LoraGradientOfA(const LoraLinearBackwardArgs& args, Stream* /*stream*/) {
  const LoraLinearSpec& spec = args.spec;
  const int64_t stacked = spec.stacked_rank(), in = spec.in_features;
  ForEachRowBlock(spec, args.rows, [&](RowBlock block) {
    const float* x =
        InputRows(spec, args.mask, block, static_cast<const float*>(args.x), DroppedRows(args));
    cpu::Sgemm({.m = stacked,
                .n = in,
                .k = block.rows,
                .alpha = 1.0f,
                .a = {GradientOfH(args) + block.begin * stacked, stacked, true},
                .b = {x, in},
                .beta = 1.0f,
                .c = static_cast<float*>(args.da),
                .stride_c = in});
  });
}

void LoraInputGradient(const LoraLinearBackwardArgs& args, Stream* stream) {
  const LoraLinearSpec& spec = args.spec;
  const int64_t stacked = spec.stacked_rank(), in = spec.in_features;
  const bool dropped = spec.dropout_rate > 0.0f;
  LoraBaseInputGradient(args, args.accumulate_dx, stream);
  ForEachRowBlock(spec, args.rows, [&](RowBlock block) {
    float* dx = static_cast<float*>(args.dx) + block.begin * in;
    cpu::Sgemm({.m = block.rows,
                .n = in,
                .k = stacked,
                .alpha = 1.0f,
                .a = {GradientOfH(args) + block.begin * stacked, stacked},
                .b = {static_cast<const float*>(args.a), in},
                .beta = dropped ? 0.0f : 1.0f,
                .c = dropped ? DroppedRows(args) : dx,
                .stride_c = in});
    if (dropped) Drop({spec, args.mask, block, /*accumulate=*/true}, DroppedRows(args), dx, stream);
  });
}

void LoraLinearForward(const LoraLinearForwardArgs& args, Stream* stream) {
  Validate(args, LoraLinearForwardWorkspaceBytes(args.spec, args.rows));
  LoraProjection(args, stream);
  LoraOutput(args, stream);
}

void LoraLinearBackward(const LoraLinearBackwardArgs& args, Stream* stream) {
  Validate(args, LoraLinearBackwardWorkspaceBytes(args.spec, args.rows));
  LoraMemberGradients(args, stream);
  LoraGradientOfA(args, stream);
  if (args.dx != nullptr) LoraInputGradient(args, stream);
}

namespace {

template <typename Args>
void ValidateGated(const Args& args, int64_t workspace_bytes) {
  cpu::RequireSupported(
      LoraLinearSupports(args.linear.spec) && GatedLinearSupports(GateSpecOf(args)),
      "LoraGatedLinear");
  cpu::RequireWorkspace(args.linear.workspace, workspace_bytes, "LoraGatedLinear");
}

}  // namespace

void LoraGatedLinearForward(const LoraGatedLinearForwardArgs& args, Stream* stream) {
  ValidateGated(args, LoraLinearForwardWorkspaceBytes(args.linear.spec, args.linear.rows));
  LoraProjection(args.linear, stream);
  PlainLoraGate(args, stream);
}

void LoraGatedLinearBackward(const LoraGatedLinearBackwardArgs& args, Stream* stream) {
  LoraLinearBackwardArgs down = args.linear;
  ValidateGated(args, LoraLinearBackwardWorkspaceBytes(down.spec, down.rows));
  LoraMemberGradients(down, stream);
  if (down.x != nullptr) LoraGradientOfA(down, stream);
  PlainLoraGateGradient(args, stream);
  if (down.x != nullptr) return;
  down.x = down.dx;
  LoraGradientOfA(down, stream);
}

}  // namespace coxswain::kernels
