// Attention forward and backward by layout, on the algorithm that the library chooses, and equal
// documents on cuDNN's plans too, whatever is chosen. FLOPs are those of the causal half: 2 heads
// (head_dim + value_dim) per pair of positions that see each other, 2 heads (3 head_dim + 2
// value_dim) in the backward: 4 and 10 heads head_dim where both are equal.
#include <algorithm>
#include <cmath>
#include <exception>
#include <random>

#include "bench/kernels/cuda/harness.h"
#include "kernels/attention/attention.h"
#include "kernels/cuda/attention/cudnn_attention.h"

namespace coxswain::kernels::bench {
namespace {

constexpr int64_t kBudget = int64_t{4} << 30;        // the plan's default
constexpr int64_t kCudnnBudget = int64_t{32} << 30;  // what its fastest plans may take

struct Layout {
  std::string name;
  int64_t heads, kv_heads, head_dim;
  std::vector<int32_t> lengths;  // of real documents, sum = tokens
  int64_t documents;             // of the plan; the rest have length 0
  int64_t max_length;
  bool dense;
  int64_t window = 0;     // 0: none
  int64_t value_dim = 0;  // 0: head_dim
  bool sinks = false;

  int64_t values() const { return value_dim > 0 ? value_dim : head_dim; }
  // Of a pair of positions that see each other and a head.
  double forward_flops() const { return 2.0 * static_cast<double>(head_dim + values()); }
  double backward_flops() const { return 2.0 * static_cast<double>(3 * head_dim + 2 * values()); }
};

Layout Equal(const Shape& m, int64_t documents, int32_t length, bool dense) {
  return {.name = std::string(dense ? "dense " : "packed ") + Extents(documents, length),
          .heads = m.heads,
          .kv_heads = m.kv_heads,
          .head_dim = m.head_dim,
          .lengths = std::vector<int32_t>(static_cast<size_t>(documents), length),
          .documents = documents,
          .max_length = length,
          .dense = dense};
}

// 131 documents of lognormal length, mean 250, at most 1,201, that fill 32,768 tokens. `bound`:
// as a plan of 16 bins of 2,048 with 32 documents each and padding must prepare for them.
Layout Mix(const Shape& m, bool bound) {
  constexpr int64_t kTokens = 32768, kDocuments = 131;
  constexpr double kSigma = 0.7;
  std::mt19937 random(7);
  std::lognormal_distribution<double> length(std::log(250.0) - kSigma * kSigma / 2, kSigma);
  std::vector<int32_t> lengths;
  int64_t sum = 0;
  for (int64_t i = 0; i < kDocuments; ++i) {
    lengths.push_back(std::clamp(static_cast<int32_t>(length(random)), 20, 1200));
    sum += lengths.back();
  }
  lengths[0] = 1201;
  sum = 0;
  for (const int32_t n : lengths) sum += n;
  // The rest is spread one token at a time over documents that may still change.
  for (size_t i = 1; sum != kTokens; i = i % (lengths.size() - 1) + 1) {
    const int32_t step = sum < kTokens ? 1 : -1;
    if (lengths[i] + step < 1 || lengths[i] + step > 1200) continue;
    lengths[i] += step;
    sum += step;
  }
  return {.name = bound ? "mix 131 of at most 528" : "mix 131",
          .heads = m.heads,
          .kv_heads = m.kv_heads,
          .head_dim = m.head_dim,
          .lengths = lengths,
          .documents = bound ? 16 * 33 : kDocuments,
          .max_length = bound ? 2048 : 1201,
          .dense = false};
}

double Flops(const Layout& layout, double per_pair) {
  const auto triangle = [](double n) { return 0.5 * n * (n + 1.0); };
  double pairs = 0;
  for (const int32_t n : layout.lengths) {
    pairs += triangle(n);
    if (layout.window > 0 && n > layout.window) {  // what the last rows no longer see
      pairs -= triangle(static_cast<double>(n - layout.window));
    }
  }
  return per_pair * pairs * static_cast<double>(layout.heads);
}

struct Operands {
  AttentionForwardArgs forward;
  AttentionBackwardArgs backward;
};

Operands MakeOperands(const Layout& layout, const AttentionSpec& spec,
                      const AttentionExtents& extents, Memory* memory) {
  std::vector<int32_t> boundaries = {0};
  for (const int32_t n : layout.lengths) boundaries.push_back(boundaries.back() + n);
  boundaries.resize(static_cast<size_t>(layout.documents) + 1, boundaries.back());
  const int64_t tokens = extents.tokens, out = layout.heads * layout.values();
  const int64_t packed = PackedRow(spec);
  const void* sinks = layout.sinks ? memory->BFloat16(layout.heads) : nullptr;
  const Documents documents{.count = layout.documents,
                            .cu_seqlens = memory->Upload(boundaries),
                            .max_length = layout.max_length,
                            .dense = layout.dense};
  const void* qkv = memory->BFloat16(tokens * packed);
  void* gradients = memory->BFloat16(tokens * packed);
  Operands operands;
  operands.forward = {.spec = spec,
                      .tokens = tokens,
                      .documents = documents,
                      .in = PackedInputs(spec, qkv),
                      .sinks = sinks,
                      .out = memory->BFloat16(tokens * out),
                      .lse = memory->Floats(tokens * layout.heads),
                      .workspace = memory->Scratch(AttentionForwardWorkspaceBytes(spec, extents))};
  operands.backward = {
      .spec = spec,
      .tokens = tokens,
      .documents = documents,
      .in = operands.forward.in,
      .sinks = sinks,
      .out = operands.forward.out,
      .lse = operands.forward.lse,
      .dout = memory->BFloat16(tokens * out),
      .gradients = PackedOutputs(spec, gradients),
      .sink_gradient = layout.sinks ? memory->Floats(layout.heads) : nullptr,
      .workspace = memory->Scratch(AttentionBackwardWorkspaceBytes(spec, extents))};
  return operands;
}

AttentionSpec SpecOf(const Layout& layout, bool deterministic) {
  return {.dtype = DType::kBFloat16,
          .num_heads = layout.heads,
          .num_kv_heads = layout.kv_heads,
          .head_dim = layout.head_dim,
          .value_dim = layout.value_dim,
          .window = layout.window,
          .scale = 1.0f / std::sqrt(static_cast<float>(layout.head_dim)),
          .sinks = layout.sinks,
          .sink_dtype = DType::kBFloat16,
          .deterministic = deterministic};
}

AttentionExtents ExtentsOf(const Layout& layout) {
  int64_t tokens = 0;
  for (const int32_t n : layout.lengths) tokens += n;
  return {.tokens = tokens,
          .documents = layout.documents,
          .max_length = layout.max_length,
          .dense = layout.dense,
          .workspace_budget = kBudget};
}

std::string HeadsOf(const Layout& layout) {
  return std::to_string(layout.heads) + "/" + std::to_string(layout.kv_heads) + " x " +
         std::to_string(layout.head_dim) +
         (layout.value_dim > 0 ? " and " + std::to_string(layout.value_dim) : "");
}

void AddError(Bench* bench, const Layout& layout, const std::string& suffix,
              const std::string& error) {
  bench->AddLine("attention " + suffix, error, {{"extents", HeadsOf(layout)}, {"error", error}});
}

// The plans of cuDNN for equal documents.
void BenchCudnn(Bench* bench, const Layout& layout, bool deterministic) {
  const AttentionSpec spec = SpecOf(layout, deterministic);
  const AttentionExtents extents = ExtentsOf(layout);
  const std::string suffix = "cuDNN " + layout.name + (deterministic ? " deterministic" : " fast");
  if (!bench->Wanted("attention forward " + suffix)) return;
  std::string line;
  const cuda::CudnnAttention* plan = cuda::PrepareCudnnAttention(
      spec, extents.documents, extents.max_length, kCudnnBudget, bench->stream(), &line);
  if (plan == nullptr) return AddError(bench, layout, suffix, line);
  const auto time = [&](const char* direction, double flops, auto launch) {
    bench->Time({.name = std::string("attention ") + direction + " " + suffix,
                 .extents = HeadsOf(layout),
                 .flops = Flops(layout, flops),
                 .make = [&](Memory* memory) -> Launch {
                   Operands operands = MakeOperands(layout, spec, extents, memory);
                   operands.forward.workspace =
                       memory->Scratch(cuda::CudnnAttentionForwardWorkspaceBytes(*plan));
                   operands.backward.workspace =
                       memory->Scratch(cuda::CudnnAttentionBackwardWorkspaceBytes(*plan));
                   cuda::CudnnAttentionForward(*plan, operands.forward, bench->stream());
                   return [=](Stream* s) { launch(*plan, operands, s); };
                 },
                 .note = line});
  };
  time("forward", layout.forward_flops(),
       [](const auto& of, const Operands& operands, Stream* stream) {
         cuda::CudnnAttentionForward(of, operands.forward, stream);
       });
  time("backward", layout.backward_flops(),
       [](const auto& of, const Operands& operands, Stream* stream) {
         cuda::CudnnAttentionBackward(of, operands.backward, stream);
       });
}

void BenchLayout(Bench* bench, const Layout& layout, bool deterministic) {
  const AttentionSpec spec = SpecOf(layout, deterministic);
  const AttentionExtents extents = ExtentsOf(layout);
  const std::string suffix = layout.name + (deterministic ? " deterministic" : " fast");
  if (!bench->Wanted("attention forward " + suffix) &&
      !bench->Wanted("attention backward " + suffix)) {
    return;
  }
  std::string chosen;
  try {
    chosen = PrepareAttention(spec, extents, bench->stream());
  } catch (const DeviceError& error) {
    if (error.sticky()) throw;
    return AddError(bench, layout, suffix, error.what());
  } catch (const std::exception& error) {  // nothing fits, or no memory
    return AddError(bench, layout, suffix, error.what());
  }
  if (!deterministic && !chosen.starts_with("cuDNN")) return;  // our backward is the same
  bench->Time({.name = "attention forward " + suffix,
               .extents = HeadsOf(layout),
               .flops = Flops(layout, layout.forward_flops()),
               .make = [&](Memory* memory) -> Launch {
                 const auto args = MakeOperands(layout, spec, extents, memory).forward;
                 return [=](Stream* s) { AttentionForward(args, s); };
               },
               .note = chosen});
  bench->Time({.name = "attention backward " + suffix,
               .extents = HeadsOf(layout),
               .flops = Flops(layout, layout.backward_flops()),
               .make = [&](Memory* memory) -> Launch {
                 const Operands operands = MakeOperands(layout, spec, extents, memory);
                 AttentionForward(operands.forward, bench->stream());
                 const auto args = operands.backward;
                 return [=](Stream* s) { AttentionBackward(args, s); };
               },
               .note = std::to_string(AttentionBackwardWorkspaceBytes(spec, extents) >> 20) +
                       " MiB workspace"});
}

// Heads of 256 elements: a micro-step of Gemma 3 4B, whose layers see 1,024 positions or all. Heads
// of 96: one of Phi 3 mini.
void AddWideHeads(std::vector<Layout>* layouts) {
  constexpr Shape kGemma = {"gemma3 4b", 16384, 2560, 10240, 262208, 34, 8, 4, 256};
  constexpr Shape kPhi = {"phi3 mini", 16384, 3072, 8192, 32064, 32, 32, 32, 96};
  for (const int32_t length : {1024, 2048}) {
    for (const int64_t window : {0, 1024}) {
      Layout layout = Equal(kGemma, kGemma.tokens / length, length, /*dense=*/false);
      layout.name = "256-wide " + layout.name;
      if (window > 0) layout.name += " window " + std::to_string(window);
      layout.window = window;
      layouts->push_back(layout);
    }
    Layout layout = Equal(kPhi, kPhi.tokens / length, length, /*dense=*/false);
    layout.name = "96-wide " + layout.name;
    layouts->push_back(layout);
  }
}

// Of models with experts: DeepSeek's latent attention as it runs, keys of 192 beside values of 128,
// and with its neighbours of equal widths; gpt-oss, whose heads have sinks and see 128 positions or
// all, and the same without sinks.
void AddExpertModels(std::vector<Layout>* layouts) {
  constexpr Shape kDeepseek = {"latent", 16384, 0, 0, 0, 0, 32, 32, 192};
  constexpr Shape kGptOss = {"gpt-oss", 16384, 0, 0, 0, 0, 64, 8, 64};
  for (const int32_t length : {1024, 4096}) {
    for (const int64_t value_dim : {128, 192}) {
      Layout layout = Equal(kDeepseek, kDeepseek.tokens / length, length, /*dense=*/false);
      layout.value_dim = value_dim;
      layout.name = "192 and " + std::to_string(value_dim) + " " + layout.name;
      layouts->push_back(layout);
    }
    for (const int64_t window : {0, 128}) {
      for (const bool sinks : {true, false}) {
        Layout layout = Equal(kGptOss, kGptOss.tokens / length, length, /*dense=*/false);
        layout.name = (sinks ? "sinks " : "no sinks ") + layout.name;
        if (window > 0) layout.name += " window " + std::to_string(window);
        layout.window = window;
        layout.sinks = sinks;
        layouts->push_back(layout);
      }
    }
  }
}

// 32,768 tokens in documents of each length and of many, by the heads of three models.
void AddLengths(std::vector<Layout>* layouts) {
  constexpr Shape kHeads[] = {{"14/2", 32768, 0, 0, 0, 0, 14, 2, 64},
                              {"28/4", 32768, 0, 0, 0, 0, 28, 4, 128},
                              {"32/8", 32768, 0, 0, 0, 0, 32, 8, 128}};
  for (const Shape& heads : kHeads) {
    for (const int32_t length : {1024, 2048, 8192, 32768}) {
      Layout layout = Equal(heads, heads.tokens / length, length, /*dense=*/true);
      layout.name = "32k " + layout.name;
      layouts->push_back(layout);
    }
    layouts->push_back(Mix(heads, /*bound=*/false));
  }
}

// The lengths of mixed documents, for whoever times the same elsewhere.
void AddLengthsOfMix(Bench* bench) {
  const Layout mix = Mix(kShapes[0], /*bound=*/false);
  if (!bench->Wanted("attention forward " + mix.name + " deterministic")) return;
  bench->AddLine("lengths of " + mix.name, std::to_string(mix.lengths.size()) + " documents",
                 {{"lengths", mix.lengths}});
}

}  // namespace

void BenchAttention(Bench* bench) {
  std::vector<Layout> layouts;
  for (const bool dense : {true, false}) {
    layouts.push_back(Equal(kShapes[0], 32, 1024, dense));
    layouts.push_back(Equal(kShapes[0], 16, 2048, dense));
    layouts.push_back(Equal(kShapes[1], 4, 1024, dense));
    layouts.push_back(Equal(kShapes[1], 8, 1024, dense));
  }
  AddLengths(&layouts);
  for (const Shape& m : kShapes) layouts.push_back(Mix(m, /*bound=*/true));
  AddWideHeads(&layouts);
  AddExpertModels(&layouts);
  AddLengthsOfMix(bench);
  for (const Layout& layout : layouts) {
    for (const bool deterministic : {true, false}) {
      BenchLayout(bench, layout, deterministic);
      // Packed ones of equal length lie in memory as dense ones do.
      const bool equal = layout.dense || layout.name.find("-wide ") != std::string::npos;
      if (equal) BenchCudnn(bench, layout, deterministic);
    }
  }
}

}  // namespace coxswain::kernels::bench
