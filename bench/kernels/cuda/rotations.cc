// RoPE and QK-norm in place on packed rows of q, k and v, and such rows from those of latent
// attention.
#include "bench/kernels/cuda/harness.h"
#include "kernels/attention/heads.h"
#include "kernels/rope.h"
#include "kernels/tensors/rows.h"

namespace coxswain::kernels::bench {
namespace {

constexpr int64_t kRotatedDocument = 1024;

void BenchRope(Bench* bench, const Shape& m, bool interleaved) {
  const RopeSpec spec{.dtype = kBF16,
                      .num_heads = m.heads,
                      .num_kv_heads = m.kv_heads,
                      .head_dim = m.head_dim,
                      .interleaved = interleaved};
  const RopeTable table = BuildRopeTable({.rotated = m.head_dim, .theta = 1e6}, kRotatedDocument);
  std::vector<int32_t> positions;
  for (int64_t t = 0; t < m.tokens; ++t)
    positions.push_back(static_cast<int32_t>(t % kRotatedDocument));
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

void BenchQkNorm(Bench* bench, const Shape& m, bool whole) {
  const QkNormSpec spec{.dtype = kBF16,
                        .num_heads = m.heads,
                        .num_kv_heads = m.kv_heads,
                        .head_dim = m.head_dim,
                        .whole = whole};
  const int64_t normed = m.tokens * (m.query() + m.key());
  const int64_t norms = whole ? 2 : m.heads + m.kv_heads;
  const int64_t q_width = whole ? m.query() : m.head_dim, k_width = whole ? m.key() : m.head_dim;
  const double bytes =
      6.0 * static_cast<double>(normed) + 4.0 * static_cast<double>(m.tokens * norms);
  const std::string name = whole ? "qk_norm whole" : "qk_norm";
  bench->Time({.name = name + " forward",
               .extents = Extents(m.tokens, m.query() + m.key()),
               .bytes = bytes,
               .make = [=](Memory* memory) -> Launch {
                 const QkNormForwardArgs args{.spec = spec,
                                              .tokens = m.tokens,
                                              .qkv = memory->BFloat16(m.tokens * m.packed()),
                                              .q_weight = memory->BFloat16(q_width),
                                              .k_weight = memory->BFloat16(k_width),
                                              .saved_qk = memory->BFloat16(normed),
                                              .rstd = memory->Floats(m.tokens * norms)};
                 return [=](Stream* s) { QkNormForward(args, s); };
               }});
  bench->Time({.name = name + " backward",
               .extents = Extents(m.tokens, m.query() + m.key()),
               .bytes = bytes,
               .make = [=](Memory* memory) -> Launch {
                 const QkNormBackwardArgs args{
                     .spec = spec,
                     .tokens = m.tokens,
                     .dqkv = memory->BFloat16(m.tokens * m.packed()),
                     .saved_qk = memory->BFloat16(normed),
                     .rstd = memory->Floats(m.tokens * norms),
                     .q_weight = memory->BFloat16(q_width),
                     .k_weight = memory->BFloat16(k_width),
                     .dq_weight = memory->Floats(q_width),
                     .dk_weight = memory->Floats(k_width),
                     .workspace = memory->Scratch(QkNormBackwardWorkspaceBytes(spec, m.tokens))};
                 return [=](Stream* s) { QkNormBackward(args, s); };
               }});
}

struct LatentModel {
  const char* model;
  int64_t tokens, heads, nope, rope, value, rank;
};
constexpr LatentModel kLatentModels[] = {{"DeepSeek-V3", 4096, 128, 128, 64, 128, 512},
                                         {"GLM-4.7-Flash", 16384, 20, 192, 64, 256, 512}};

void BenchLatentHeads(Bench* bench, const LatentModel& m) {
  const LatentHeadsSpec spec{.dtype = kBF16,
                             .heads = m.heads,
                             .nope = m.nope,
                             .rope = m.rope,
                             .value = m.value,
                             .interleaved = true};
  const RopeTable table = BuildRopeTable({.rotated = m.rope}, kRotatedDocument);
  std::vector<int32_t> positions;
  for (int64_t t = 0; t < m.tokens; ++t) {
    positions.push_back(static_cast<int32_t>(t % kRotatedDocument));
  }
  const auto places = [&](Memory* memory) -> LatentPlaces {
    return {memory->Upload(table.cos), memory->Upload(table.sin), memory->Upload(positions)};
  };
  const int64_t q = m.tokens * LatentQueryRow(spec), kv = m.tokens * LatentKeyValueRow(spec);
  const int64_t packed = m.tokens * LatentPackedRow(spec), shared = m.tokens * m.rope;
  const double bytes = 2.0 * static_cast<double>(q + kv + packed + shared);
  bench->Time({.name = "latent heads forward",
               .extents = Extents(m.tokens, LatentPackedRow(spec)),
               .bytes = bytes,
               .make = [=](Memory* memory) -> Launch {
                 const LatentHeadsForwardArgs args{.spec = spec,
                                                   .tokens = m.tokens,
                                                   .places = places(memory),
                                                   .q = memory->BFloat16(q),
                                                   .kv = memory->BFloat16(kv),
                                                   .k_rope = memory->BFloat16(shared),
                                                   .qkv = memory->BFloat16(packed)};
                 return [=](Stream* s) { LatentHeadsForward(args, s); };
               },
               .note = m.model});
  bench->Time({.name = "latent heads backward",
               .extents = Extents(m.tokens, LatentPackedRow(spec)),
               .bytes = bytes,
               .make = [=](Memory* memory) -> Launch {
                 const LatentHeadsBackwardArgs args{.spec = spec,
                                                    .tokens = m.tokens,
                                                    .places = places(memory),
                                                    .dqkv = memory->BFloat16(packed),
                                                    .dq = memory->BFloat16(q),
                                                    .dkv = memory->BFloat16(kv),
                                                    .dk_rope = memory->BFloat16(shared)};
                 return [=](Stream* s) { LatentHeadsBackward(args, s); };
               },
               .note = m.model});
}

void BenchSplitRows(Bench* bench, const LatentModel& m) {
  const SplitRowsSpec spec{.dtype = kBF16, .first = m.rank, .second = m.rope};
  const int64_t row = m.rank + m.rope;
  const double bytes = 4.0 * static_cast<double>(m.tokens * row);
  bench->Time({.name = "latent split forward",
               .extents = Extents(m.tokens, row),
               .bytes = bytes,
               .make = [=](Memory* memory) -> Launch {
                 const SplitRowsForwardArgs args{.spec = spec,
                                                 .rows = m.tokens,
                                                 .x = memory->BFloat16(m.tokens * row),
                                                 .first = memory->BFloat16(m.tokens * m.rank),
                                                 .second = memory->BFloat16(m.tokens * m.rope)};
                 return [=](Stream* s) { SplitRowsForward(args, s); };
               },
               .note = m.model});
  bench->Time({.name = "latent split backward",
               .extents = Extents(m.tokens, row),
               .bytes = bytes,
               .make = [=](Memory* memory) -> Launch {
                 const SplitRowsBackwardArgs args{.spec = spec,
                                                  .rows = m.tokens,
                                                  .dfirst = memory->BFloat16(m.tokens * m.rank),
                                                  .dsecond = memory->BFloat16(m.tokens * m.rope),
                                                  .dx = memory->BFloat16(m.tokens * row)};
                 return [=](Stream* s) { SplitRowsBackward(args, s); };
               },
               .note = m.model});
}

}  // namespace

void BenchRotations(Bench* bench) {
  for (const LatentModel& m : kLatentModels) {
    BenchLatentHeads(bench, m);
    BenchSplitRows(bench, m);
  }
  for (const Shape& m : kShapes) {
    BenchRope(bench, m, /*interleaved=*/false);
    BenchRope(bench, m, /*interleaved=*/true);
    BenchQkNorm(bench, m, /*whole=*/false);
    BenchQkNorm(bench, m, /*whole=*/true);
  }
}

}  // namespace coxswain::kernels::bench
