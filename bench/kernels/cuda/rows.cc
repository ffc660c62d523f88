// Embedding, and gather and scatter of the rows that have a target.
#include <cmath>
#include <random>
#include <unordered_set>

#include "bench/kernels/cuda/harness.h"
#include "kernels/tensors/rows.h"

namespace coxswain::kernels::bench {
namespace {

// `skewed`: id v with density ~ 1/v, as words are; else uniform.
std::vector<int32_t> Ids(const Shape& m, bool skewed) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> uniform;
  std::vector<int32_t> ids;
  for (int64_t t = 0; t < m.tokens; ++t) {
    const double u = uniform(random), vocab = static_cast<double>(m.vocab);
    const double id = skewed ? std::pow(vocab, u) - 1 : u * vocab;
    ids.push_back(static_cast<int32_t>(std::min(id, vocab - 1)));
  }
  return ids;
}

void BenchEmbedding(Bench* bench, const Shape& m, bool skewed) {
  const EmbeddingSpec spec{.dtype = kBF16, .vocab = m.vocab, .hidden = m.hidden};
  const std::vector<int32_t> ids = Ids(m, skewed);
  const auto different =
      static_cast<int64_t>(std::unordered_set<int32_t>(ids.begin(), ids.end()).size());
  const double row = static_cast<double>(m.hidden), tokens = static_cast<double>(m.tokens);
  const std::string kind = skewed ? " skewed ids" : " uniform ids";
  bench->Time({.name = "embedding forward" + kind,
               .extents = Extents(m.tokens, m.hidden),
               .bytes = 2.0 * row * (tokens + static_cast<double>(different)),
               .make = [&](Memory* memory) -> Launch {
                 const EmbeddingForwardArgs args{.spec = spec,
                                                 .tokens = m.tokens,
                                                 .ids = memory->Upload(ids),
                                                 .weight = memory->BFloat16(m.vocab * m.hidden),
                                                 .out = memory->BFloat16(m.tokens * m.hidden)};
                 return [=](Stream* s) { EmbeddingForward(args, s); };
               }});
  bench->Time({.name = "embedding backward" + kind,
               .extents = Extents(m.tokens, m.hidden),
               .bytes = row * (2.0 * tokens + 8.0 * static_cast<double>(different)),
               .make = [&](Memory* memory) -> Launch {
                 const EmbeddingBackwardArgs args{
                     .spec = spec,
                     .tokens = m.tokens,
                     .ids = memory->Upload(ids),
                     .dout = memory->BFloat16(m.tokens * m.hidden),
                     .dweight = memory->Floats(m.vocab * m.hidden),
                     .workspace = memory->Scratch(EmbeddingBackwardWorkspaceBytes(spec, m.tokens))};
                 return [=](Stream* s) { EmbeddingBackward(args, s); };
               },
               .note = std::to_string(different) + " different ids, float32 gradient"});
}

void BenchGather(Bench* bench, const Shape& m, bool scatter) {
  std::vector<int32_t> index;
  for (int64_t t = 0; t < m.tokens; t += 2) index.push_back(static_cast<int32_t>(t));
  const auto rows = static_cast<int64_t>(index.size());
  bench->Time({.name = scatter ? "scatter_add rows" : "gather rows",
               .extents = Extents(rows, m.hidden),
               .bytes = (scatter ? 6.0 : 4.0) * static_cast<double>(rows * m.hidden),
               .make = [&](Memory* memory) -> Launch {
                 void* tall = memory->BFloat16(m.tokens * m.hidden);
                 void* picked = memory->BFloat16(rows * m.hidden);
                 const RowGatherArgs args{.spec = {.dtype = kBF16, .columns = m.hidden},
                                          .rows = rows,
                                          .index = memory->Upload(index),
                                          .in = scatter ? picked : tall,
                                          .out = scatter ? tall : picked};
                 if (scatter) return [=](Stream* s) { ScatterAddRows(args, s); };
                 return [=](Stream* s) { GatherRows(args, s); };
               },
               .note = "every second row"});
}

}  // namespace

void BenchRows(Bench* bench) {
  for (const Shape& m : kShapes) {
    BenchEmbedding(bench, m, /*skewed=*/false);
    BenchEmbedding(bench, m, /*skewed=*/true);
    BenchGather(bench, m, /*scatter=*/false);
    BenchGather(bench, m, /*scatter=*/true);
  }
}

}  // namespace coxswain::kernels::bench
