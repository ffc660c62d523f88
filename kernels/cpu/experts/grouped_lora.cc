// Products by gemm.h of each expert that has rows. The offsets are in host memory here.
#include "kernels/experts/grouped_lora.h"

#include <algorithm>

#include "kernels/cpu/check.h"
#include "kernels/cpu/experts/expert_checks.h"
#include "kernels/cpu/products/sgemm.h"

namespace coxswain::kernels {
namespace {

template <typename Args>
void Require(const Args& args) {
  cpu::RequireSupported(GroupedLoraSupports(args.spec), "GroupedLora");
  cpu::RequireExtent(args.rows, "GroupedLora", "rows");
  cpu::RequireOffsets(args.offsets, args.spec.experts, args.rows, "GroupedLora");
}

const float* Floats(const void* data) { return static_cast<const float*>(data); }
float* Floats(void* data) { return static_cast<float*>(data); }

// Calls use(expert, first row, rows) for every expert that has rows.
template <typename Args, typename Use>
void ForExperts(const Args& args, const Use& use) {
  for (int64_t e = 0; e < args.spec.experts; ++e) {
    const int64_t first = args.offsets[e], count = args.offsets[e + 1] - first;
    if (count > 0) use(e, first, count);
  }
}

}  // namespace

bool GroupedLoraSupports(const GroupedLoraSpec& spec) {
  return spec.dtype == DType::kFloat32 && spec.grad_dtype == DType::kFloat32 && spec.experts > 0 &&
         spec.in_features > 0 && spec.out_features > 0 && spec.rank > 0;
}

int64_t GroupedLoraBackwardWorkspaceBytes(const GroupedLoraSpec& spec, int64_t rows) {
  return rows * spec.rank * static_cast<int64_t>(sizeof(float));
}

void GroupedLoraForward(const GroupedLoraForwardArgs& args, Stream* stream) {
  Require(args);
  const int64_t k = args.spec.in_features, n = args.spec.out_features, r = args.spec.rank;
  float* h = Floats(args.h);
  ForExperts(args, [&](int64_t e, int64_t first, int64_t count) {
    cpu::Sgemm({count,
                r,
                k,
                1.0f,
                {Floats(args.x) + first * k, k},
                {Floats(args.a) + e * r * k, k, true},
                0.0f,
                h + first * r,
                r});
    cpu::Sgemm({count,
                n,
                r,
                args.spec.scale,
                {h + first * r, r},
                {Floats(args.b) + e * n * r, r, true},
                1.0f,
                Floats(args.y) + first * n,
                n});
  });
  std::fill(h + args.offsets[args.spec.experts] * r, h + args.rows * r, 0.0f);
}

void GroupedLoraBackward(const GroupedLoraBackwardArgs& args, Stream* stream) {
  Require(args);
  cpu::RequireWorkspace(args.workspace, GroupedLoraBackwardWorkspaceBytes(args.spec, args.rows),
                        "GroupedLora");
  const int64_t k = args.spec.in_features, n = args.spec.out_features, r = args.spec.rank;
  const float scale = args.spec.scale;
  float* dh = static_cast<float*>(args.workspace.data);
  ForExperts(args, [&](int64_t e, int64_t first, int64_t count) {
    const float *x = Floats(args.x) + first * k, *h = Floats(args.h) + first * r;
    const float* dy = Floats(args.dy) + first * n;
    cpu::Sgemm({count, r, n, scale, {dy, n}, {Floats(args.b) + e * n * r, r}, 0.0f, dh, r});
    cpu::Sgemm({r, k, count, 1.0f, {dh, r, true}, {x, k}, 1.0f, Floats(args.da) + e * r * k, k});
    cpu::Sgemm({n, r, count, scale, {dy, n, true}, {h, r}, 1.0f, Floats(args.db) + e * n * r, r});
    if (args.dx == nullptr) return;
    cpu::Sgemm({count,
                k,
                r,
                1.0f,
                {dh, r},
                {Floats(args.a) + e * r * k, k},
                1.0f,
                Floats(args.dx) + first * k,
                k});
  });
}

}  // namespace coxswain::kernels
