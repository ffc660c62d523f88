// RoPE and QK-norm in place on packed rows of q, k and v.
#include "bench/kernels/cuda/harness.h"
#include "kernels/qk_norm.h"
#include "kernels/rope.h"

namespace coxswain::kernels::bench {
namespace {

constexpr DType kBF16 = DType::kBFloat16;
constexpr int64_t kDocument = 1024;

void BenchRope(Bench* bench, const Shape& m, bool interleaved) {
  const RopeSpec spec{.dtype = kBF16,
                      .num_heads = m.heads,
                      .num_kv_heads = m.kv_heads,
                      .head_dim = m.head_dim,
                      .interleaved = interleaved};
  const RopeTable table = BuildRopeTable({.rotated = m.head_dim, .theta = 1e6}, kDocument);
  std::vector<int32_t> positions;
  for (int64_t t = 0; t < m.tokens; ++t) positions.push_back(static_cast<int32_t>(t % kDocument));
  const auto make = [&](auto op) {
    return [=, &table, &positions](Memory* memory) -> Launch {
      const RopeArgs args{.spec = spec,
                          .tokens = m.tokens,
                          .qkv = memory->BFloat16(m.tokens * m.packed()),
                          .cos = memory->Upload(table.cos),
                          .sin = memory->Upload(table.sin),
                          .positions = memory->Upload(positions)};
      return [=](Stream* s) { op(args, s); };
    };
  };
  const std::string layout = interleaved ? " interleaved" : "";
  const double bytes = 4.0 * static_cast<double>(m.tokens * (m.query() + m.key()));
  bench->Time({.name = "rope forward" + layout,
               .extents = Extents(m.tokens, m.query() + m.key()),
               .bytes = bytes,
               .make = make(RopeForward)});
  bench->Time({.name = "rope backward" + layout,
               .extents = Extents(m.tokens, m.query() + m.key()),
               .bytes = bytes,
               .make = make(RopeBackward)});
}

void BenchQkNorm(Bench* bench, const Shape& m) {
  const QkNormSpec spec{
      .dtype = kBF16, .num_heads = m.heads, .num_kv_heads = m.kv_heads, .head_dim = m.head_dim};
  const int64_t normed = m.tokens * (m.query() + m.key()), heads = m.heads + m.kv_heads;
  const double bytes =
      6.0 * static_cast<double>(normed) + 4.0 * static_cast<double>(m.tokens * heads);
  bench->Time({.name = "qk_norm forward",
               .extents = Extents(m.tokens, m.query() + m.key()),
               .bytes = bytes,
               .make = [=](Memory* memory) -> Launch {
                 const QkNormForwardArgs args{.spec = spec,
                                              .tokens = m.tokens,
                                              .qkv = memory->BFloat16(m.tokens * m.packed()),
                                              .q_weight = memory->BFloat16(m.head_dim),
                                              .k_weight = memory->BFloat16(m.head_dim),
                                              .saved_qk = memory->BFloat16(normed),
                                              .rstd = memory->Floats(m.tokens * heads)};
                 return [=](Stream* s) { QkNormForward(args, s); };
               }});
  bench->Time({.name = "qk_norm backward",
               .extents = Extents(m.tokens, m.query() + m.key()),
               .bytes = bytes,
               .make = [=](Memory* memory) -> Launch {
                 const QkNormBackwardArgs args{
                     .spec = spec,
                     .tokens = m.tokens,
                     .dqkv = memory->BFloat16(m.tokens * m.packed()),
                     .saved_qk = memory->BFloat16(normed),
                     .rstd = memory->Floats(m.tokens * heads),
                     .q_weight = memory->BFloat16(m.head_dim),
                     .k_weight = memory->BFloat16(m.head_dim),
                     .dq_weight = memory->Floats(m.head_dim),
                     .dk_weight = memory->Floats(m.head_dim),
                     .workspace = memory->Scratch(QkNormBackwardWorkspaceBytes(spec, m.tokens))};
                 return [=](Stream* s) { QkNormBackward(args, s); };
               }});
}

}  // namespace

void BenchRotations(Bench* bench) {
  for (const Shape& m : kShapes) {
    BenchRope(bench, m, /*interleaved=*/false);
    BenchRope(bench, m, /*interleaved=*/true);
    BenchQkNorm(bench, m);
  }
}

}  // namespace coxswain::kernels::bench
