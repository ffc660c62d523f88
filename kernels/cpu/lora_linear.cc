// Products of rank g r on BLAS. With dropout, x is dropped 128 rows at a time into the workspace,
// and again in backward, so that no dropped copy of x is kept; block order fixes the order of sums.
#include "kernels/lora_linear.h"

#include <algorithm>

#include "kernels/cpu/check.h"
#include "kernels/cpu/sgemm.h"

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

// g_j = scale dy_j B_j;  dB_j += scale dy_j^T h_j.
void MemberGradients(const LoraLinearBackwardArgs& args, float* g) {
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
                .alpha = spec.scale,
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
                .c = g + first,
                .stride_c = stacked});
  }
}

}  // namespace

bool LoraLinearSupports(const LoraLinearSpec& spec) {
  if (spec.dtype != DType::kFloat32 || spec.grad_dtype != DType::kFloat32) return false;
  if (spec.members.empty() || spec.rank < 1) return false;
  for (const LoraMember& member : spec.members) {
    if (member.out_features < 1 || member.column_offset < 0 ||
        member.column_offset + member.out_features > spec.ldy) {
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

void LoraLinearForward(const LoraLinearForwardArgs& args, Stream* stream) {
  const LoraLinearSpec& spec = args.spec;
  cpu::RequireSupported(LoraLinearSupports(spec), "LoraLinear");
  cpu::RequireWorkspace(args.workspace, LoraLinearForwardWorkspaceBytes(spec, args.rows),
                        "LoraLinear");
  const int64_t stacked = spec.stacked_rank();
  float* h = static_cast<float*>(args.h);
  ForEachRowBlock(spec, args.rows, [&](RowBlock block) {
    const float* x = InputRows(spec, args.mask, block, static_cast<const float*>(args.x),
                               static_cast<float*>(args.workspace.data));
    cpu::Sgemm({.m = block.rows,
                .n = stacked,
                .k = spec.in_features,
                .alpha = 1.0f,
                .a = {x, spec.in_features},
                .b = {static_cast<const float*>(args.a), spec.in_features, true},
                .beta = 0.0f,
                .c = h + block.begin * stacked,
                .stride_c = stacked});
  });
  for (size_t j = 0; j < spec.members.size(); ++j) {
    const LoraMember& member = spec.members[j];
    cpu::Sgemm({.m = args.rows,
                .n = member.out_features,
                .k = spec.rank,
                .alpha = spec.scale,
                .a = {h + static_cast<int64_t>(j) * spec.rank, stacked},
                .b = {static_cast<const float*>(member.b), spec.rank, true},
                .beta = args.accumulate_y ? 1.0f : 0.0f,
                .c = static_cast<float*>(args.y) + member.column_offset,
                .stride_c = spec.ldy});
  }
}

void LoraLinearBackward(const LoraLinearBackwardArgs& args, Stream* stream) {
  const LoraLinearSpec& spec = args.spec;
  cpu::RequireSupported(LoraLinearSupports(spec), "LoraLinear");
  cpu::RequireWorkspace(args.workspace, LoraLinearBackwardWorkspaceBytes(spec, args.rows),
                        "LoraLinear");
  const int64_t stacked = spec.stacked_rank(), in = spec.in_features;
  float* g = static_cast<float*>(args.workspace.data);
  float* scratch = g + cpu::AlignedFloatBytes(args.rows * stacked) / 4;
  const float* a = static_cast<const float*>(args.a);
  float* dx = static_cast<float*>(args.dx);
  MemberGradients(args, g);
  ForEachRowBlock(spec, args.rows, [&](RowBlock block) {
    const float* g_rows = g + block.begin * stacked;
    const float* x = InputRows(spec, args.mask, block, static_cast<const float*>(args.x), scratch);
    cpu::Sgemm({.m = stacked,
                .n = in,
                .k = block.rows,
                .alpha = 1.0f,
                .a = {g_rows, stacked, true},
                .b = {x, in},
                .beta = 1.0f,
                .c = static_cast<float*>(args.da),
                .stride_c = in});
    if (dx == nullptr) return;
    float* dx_rows = dx + block.begin * in;
    const bool dropped = spec.dropout_rate > 0.0f;
    cpu::Sgemm({.m = block.rows,
                .n = in,
                .k = stacked,
                .alpha = 1.0f,
                .a = {g_rows, stacked},
                .b = {a, in},
                .beta = dropped || !args.accumulate_dx ? 0.0f : 1.0f,
                .c = dropped ? scratch : dx_rows,
                .stride_c = in});
    if (dropped) Drop({spec, args.mask, block, args.accumulate_dx}, scratch, dx_rows, stream);
  });
}

}  // namespace coxswain::kernels
