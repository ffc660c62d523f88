// Queries, keys and values turned by their product, and their gradients turned back by attention,
// beside the same with a pass of rope.h. A pass moves 4 bytes an element of q and k.
#include <cmath>

#include "bench/kernels/cuda/harness.h"
#include "kernels/attention/attention.h"
#include "kernels/cuda/products/rotated_product.h"
#include "kernels/products/gemm.h"
#include "kernels/products/plain_products.h"

namespace coxswain::kernels::bench {
namespace {

constexpr int64_t kDocument = 1024;

// Micro-steps of Qwen2.5.
constexpr Shape kModels[] = {
    kShapes[0],
    {"1.5b", 32768, 1536, 8960, 151936, 28, 12, 2, 128},
    {"7b", 4096, 3584, 18944, 152064, 28, 28, 4, 128},
};

RopeArgs MakeRope(const Shape& m, void* qkv, Memory* memory) {
  const RopeTable table = BuildRopeTable({.rotated = m.head_dim, .theta = 1e6}, kDocument);
  std::vector<int32_t> positions;
  for (int64_t t = 0; t < m.tokens; ++t) positions.push_back(static_cast<int32_t>(t % kDocument));
  return {.spec = {.dtype = kBF16,
                   .num_heads = m.heads,
                   .num_kv_heads = m.kv_heads,
                   .head_dim = m.head_dim},
          .tokens = m.tokens,
          .qkv = qkv,
          .cos = memory->Upload(table.cos),
          .sin = memory->Upload(table.sin),
          .positions = memory->Upload(positions)};
}

void BenchForward(Bench* bench, const Shape& m, const char* body,
                  void (*launch)(const RotatedLinearArgs&, Stream*)) {
  bench->Time(
      {.name = std::string("rotated qkv ") + m.model + " " + body,
       .extents = Extents(m.tokens, m.packed()) + " x " + std::to_string(m.hidden),
       .flops = 2.0 * static_cast<double>(m.tokens * m.packed()) * static_cast<double>(m.hidden),
       .make = [=](Memory* memory) -> Launch {
         const RotatedLinearArgs args{
             .in_features = m.hidden,
             .x = memory->BFloat16(m.tokens * m.hidden),
             .weight = memory->BFloat16(m.packed() * m.hidden),
             .bias = memory->BFloat16(m.packed()),
             .rope = MakeRope(m, memory->BFloat16(m.tokens * m.packed()), memory),
             .workspace = memory->Scratch(GemmWorkspaceBytes())};
         return [=](Stream* s) { launch(args, s); };
       }});
}

AttentionBackwardArgs MakeBackward(const Shape& m, Memory* memory, Stream* stream) {
  AttentionBackwardArgs args;
  args.spec = {.dtype = kBF16,
               .num_heads = m.heads,
               .num_kv_heads = m.kv_heads,
               .head_dim = m.head_dim,
               .scale = 1.0f / std::sqrt(static_cast<float>(m.head_dim))};
  const AttentionExtents extents{.tokens = m.tokens,
                                 .documents = m.tokens / kDocument,
                                 .max_length = kDocument,
                                 .dense = true};
  PrepareAttention(args.spec, extents, stream);
  std::vector<int32_t> ends;
  for (int64_t t = 0; t <= m.tokens; t += kDocument) ends.push_back(static_cast<int32_t>(t));
  args.tokens = m.tokens;
  args.documents = {.count = extents.documents,
                    .cu_seqlens = memory->Upload(ends),
                    .max_length = kDocument,
                    .dense = true};
  args.in = PackedInputs(args.spec, memory->BFloat16(m.tokens * m.packed()));
  void* const out = memory->BFloat16(m.tokens * m.query());
  float* const lse = memory->Floats(m.tokens * m.heads);
  AttentionForward(
      {.spec = args.spec,
       .tokens = m.tokens,
       .documents = args.documents,
       .in = args.in,
       .out = out,
       .lse = lse,
       .workspace = memory->Scratch(AttentionForwardWorkspaceBytes(args.spec, extents))},
      stream);
  args.out = out;
  args.lse = lse;
  args.dout = memory->BFloat16(m.tokens * m.query());
  args.gradients = PackedOutputs(args.spec, memory->BFloat16(m.tokens * m.packed()));
  args.workspace = memory->Scratch(AttentionBackwardWorkspaceBytes(args.spec, extents));
  return args;
}

void BenchBackward(Bench* bench, const Shape& m, bool folded) {
  bench->Time(
      {.name = std::string("rotated gradient ") + m.model + (folded ? " folded" : " in two"),
       .extents = Extents(m.tokens, m.packed()),
       .flops = 10.0 / 2 * static_cast<double>(m.tokens * m.query() * (kDocument + 1)),
       .make = [=](Memory* memory) -> Launch {
         const AttentionBackwardArgs args = MakeBackward(m, memory, bench->stream());
         const RopeArgs rope = MakeRope(m, args.gradients.q, memory);
         return [=](Stream* s) {
           AttentionBackwardArgs of = args;
           if (folded) of.rotation = &rope;
           AttentionBackward(of, s);
           if (!folded) RopeBackward(rope, s);
         };
       }});
}

}  // namespace

void BenchRotated(Bench* bench) {
  SetGemmTuning(true);
  for (const Shape& m : kModels) {
    BenchForward(bench, m, "in two", PlainRotatedLinearForward);
    BenchForward(bench, m, "in one", cuda::RotatedProduct);
    for (const bool folded : {false, true}) BenchBackward(bench, m, folded);
  }
  SetGemmTuning(false);
}

}  // namespace coxswain::kernels::bench
