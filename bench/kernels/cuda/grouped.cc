// The linears of 128 experts of Qwen3-30B-A3B in one launch, beside one product after the other by
// cuBLASLt as tuning chooses them; and the adapters of such linears, which add to their results.
// Rows an expert: the same for all; as many as draws give each; one with four times the mean. The
// draws have too many shapes to tune each.
#include <algorithm>
#include <vector>

#include "bench/kernels/cuda/expert_rows.h"
#include "bench/kernels/cuda/harness.h"
#include "kernels/experts/grouped_linear.h"
#include "kernels/experts/grouped_lora.h"
#include "kernels/products/gemm.h"

namespace coxswain::kernels::bench {
namespace grouped {
namespace {

constexpr int64_t kExperts = 128;

struct Linear {
  const char* name;
  int64_t in, out;
};
constexpr Linear kLinears[] = {{"gate_up", 2048, 1536}, {"down", 768, 2048}};
constexpr int64_t kMeans[] = {2048, 512};

enum class Pass { kForward, kDgrad, kWgradBFloat16, kWgradFloat32 };
struct NamedPass {
  Pass pass;
  const char* name;
};
constexpr NamedPass kPasses[] = {{Pass::kForward, "forward"},
                                 {Pass::kDgrad, "dgrad"},
                                 {Pass::kWgradBFloat16, "wgrad bf16"},
                                 {Pass::kWgradFloat32, "wgrad fp32 beta=1"}};

struct Spread {
  const char* name;
  bool tuned;  // whether cuBLASLt is timed
  std::vector<int32_t> offsets;
};

std::vector<Spread> Spreads(int64_t mean) {
  std::vector<int64_t> fullest(kExperts, (kExperts - 4) * mean / (kExperts - 1));
  fullest[kExperts / 2] = 4 * mean;
  return {{"equal", true, OffsetsOf(std::vector<int64_t>(kExperts, mean))},
          {"drawn", false, OffsetsOf(DrawnRows(kExperts, mean))},
          {"fullest 4x", true, OffsetsOf(fullest)}};
}

struct Operands {
  Linear linear;
  Pass pass;
  std::vector<int32_t> offsets;
  void *x, *w, *y;  // of the pass: y is dy, w dW
  int32_t* device_offsets;
  Workspace scratch;
  int64_t rows() const { return offsets.back(); }
  DType grad() const { return pass == Pass::kWgradFloat32 ? kF32 : kBF16; }
};

Operands Make(const Linear& linear, Pass pass, const Spread& spread, Memory* memory) {
  Operands o{linear, pass, spread.offsets, nullptr, nullptr, nullptr, nullptr, {}};
  o.x = memory->BFloat16(o.rows() * linear.in);
  const bool wgrad = pass == Pass::kWgradBFloat16 || pass == Pass::kWgradFloat32;
  o.w = memory->Values(wgrad ? o.grad() : kBF16, kExperts * linear.in * linear.out);
  o.y = memory->BFloat16(o.rows() * linear.out);
  o.device_offsets = memory->Upload(spread.offsets);
  o.scratch = memory->Scratch(GemmWorkspaceBytes());
  return o;
}

void Grouped(const Operands& o, Stream* stream) {
  const GroupedLinearSpec spec{.dtype = kBF16,
                               .grad_dtype = o.grad(),
                               .experts = kExperts,
                               .in_features = o.linear.in,
                               .out_features = o.linear.out};
  switch (o.pass) {
    case Pass::kForward:
      return GroupedLinearForward({.spec = spec,
                                   .rows = o.rows(),
                                   .offsets = o.device_offsets,
                                   .x = o.x,
                                   .weight = o.w,
                                   .y = o.y},
                                  stream);
    case Pass::kDgrad:
      return GroupedLinearInputGradient({.spec = spec,
                                         .rows = o.rows(),
                                         .offsets = o.device_offsets,
                                         .dy = o.y,
                                         .weight = o.w,
                                         .dx = o.x},
                                        stream);
    case Pass::kWgradBFloat16:
    case Pass::kWgradFloat32:
      return GroupedLinearWeightGradient({.spec = spec,
                                          .rows = o.rows(),
                                          .offsets = o.device_offsets,
                                          .dy = o.y,
                                          .x = o.x,
                                          .accumulate = o.pass == Pass::kWgradFloat32,
                                          .dweight = o.w},
                                         stream);
  }
}

void* At(void* data, int64_t element, DType dtype = kBF16) {
  return static_cast<char*>(data) + element * DTypeBytes(dtype);
}

// The product of one expert.
GemmArgs Product(const Operands& o, int64_t e) {
  const int64_t in = o.linear.in, out = o.linear.out, first = o.offsets[static_cast<size_t>(e)];
  const int64_t rows = o.offsets[static_cast<size_t>(e) + 1] - first;
  const void *x = At(o.x, first * in), *y = At(o.y, first * out), *w = At(o.w, e * in * out);
  switch (o.pass) {
    case Pass::kForward:
      return {.spec = {.dtype = kBF16, .output_dtype = kBF16, .transpose_b = true},
              .m = rows,
              .n = out,
              .k = in,
              .a = x,
              .lda = in,
              .b = w,
              .ldb = in,
              .c = At(o.y, first * out),
              .ldc = out};
    case Pass::kDgrad:
      return {.spec = {.dtype = kBF16, .output_dtype = kBF16},
              .m = rows,
              .n = in,
              .k = out,
              .a = y,
              .lda = out,
              .b = w,
              .ldb = in,
              .c = At(o.x, first * in),
              .ldc = in};
    case Pass::kWgradBFloat16:
    case Pass::kWgradFloat32:
      break;
  }
  return {.spec = {.dtype = kBF16, .output_dtype = o.grad(), .transpose_a = true},
          .m = out,
          .n = in,
          .k = rows,
          .a = y,
          .lda = out,
          .b = x,
          .ldb = in,
          .beta = o.pass == Pass::kWgradFloat32 ? 1.0f : 0.0f,
          .c = At(o.w, e * in * out, o.grad()),
          .ldc = in};
}

void ByExpert(const Operands& o, Stream* stream) {
  for (int64_t e = 0; e < kExperts; ++e) {
    GemmArgs product = Product(o, e);
    product.workspace = o.scratch;
    Gemm(product, stream);
  }
}

void BenchPass(Bench* bench, const Linear& linear, int64_t mean, const NamedPass& pass,
               const Spread& spread) {
  const int64_t rows = spread.offsets.back();
  const auto time = [&](const char* way, void (*launch)(const Operands&, Stream*)) {
    bench->Time({.name = std::string("grouped ") + linear.name + " " + std::to_string(mean) + " " +
                         pass.name + " " + spread.name + way,
                 .extents = std::to_string(rows) + " x " + std::to_string(linear.out) + " x " +
                            std::to_string(linear.in),
                 .flops = 2.0 * static_cast<double>(rows) * static_cast<double>(linear.out) *
                          static_cast<double>(linear.in),
                 .make = [&, launch](Memory* memory) -> Launch {
                   const Operands operands = Make(linear, pass.pass, spread, memory);
                   return [=](Stream* s) { launch(operands, s); };
                 }});
  };
  time("", Grouped);
  if (spread.tuned) time(" by expert", ByExpert);
}

GroupedLoraSpec AdapterSpec(const Linear& linear, int64_t rank) {
  return {.dtype = kBF16,
          .experts = kExperts,
          .in_features = linear.in,
          .out_features = linear.out,
          .rank = rank,
          .scale = 2.0f};
}

Launch MakeForward(const GroupedLoraSpec& spec, const Spread& spread, Memory* memory) {
  const int64_t rows = spread.offsets.back(), k = spec.in_features, n = spec.out_features;
  const GroupedLoraForwardArgs args{.spec = spec,
                                    .rows = rows,
                                    .offsets = memory->Upload(spread.offsets),
                                    .x = memory->BFloat16(rows * k),
                                    .a = memory->BFloat16(kExperts * spec.rank * k),
                                    .b = memory->BFloat16(kExperts * n * spec.rank),
                                    .h = memory->BFloat16(rows * spec.rank),
                                    .y = memory->BFloat16(rows * n)};
  return [=](Stream* s) { GroupedLoraForward(args, s); };
}

Launch MakeBackward(const GroupedLoraSpec& spec, const Spread& spread, Memory* memory) {
  const int64_t rows = spread.offsets.back(), k = spec.in_features, n = spec.out_features;
  const GroupedLoraBackwardArgs args{
      .spec = spec,
      .rows = rows,
      .offsets = memory->Upload(spread.offsets),
      .x = memory->BFloat16(rows * k),
      .a = memory->BFloat16(kExperts * spec.rank * k),
      .b = memory->BFloat16(kExperts * n * spec.rank),
      .h = memory->BFloat16(rows * spec.rank),
      .dy = memory->BFloat16(rows * n),
      .da = memory->Floats(kExperts * spec.rank * k),
      .db = memory->Floats(kExperts * n * spec.rank),
      .dx = memory->BFloat16(rows * k),
      .workspace = memory->Scratch(GroupedLoraBackwardWorkspaceBytes(spec, rows))};
  return [=](Stream* s) { GroupedLoraBackward(args, s); };
}

// Forward reads x and A, B, writes h and updates y; backward reads x, dy, h, A and B, and updates
// dx, dA and dB.
void BenchAdapters(Bench* bench, const Linear& linear, int64_t rank, const Spread& spread) {
  const GroupedLoraSpec spec = AdapterSpec(linear, rank);
  const int64_t rows = spread.offsets.back();
  const int64_t elements = kExperts * rank * (linear.in + linear.out);
  const std::string name = std::string("grouped lora ") + linear.name;
  const std::string tail = " r=" + std::to_string(rank) + " " + spread.name;
  const std::string extents =
      std::to_string(rows) + " x " + std::to_string(linear.out) + " x " + std::to_string(linear.in);
  bench->Time(
      {.name = name + " forward" + tail,
       .extents = extents,
       .bytes = static_cast<double>(2 * rows * (linear.in + 2 * linear.out + rank) + 2 * elements),
       .make = [&](Memory* memory) { return MakeForward(spec, spread, memory); }});
  bench->Time({.name = name + " backward" + tail,
               .extents = extents,
               .bytes = static_cast<double>(2 * rows * (3 * linear.in + linear.out + rank) +
                                            (2 + 8) * elements),
               .make = [&](Memory* memory) { return MakeBackward(spec, spread, memory); }});
}

}  // namespace
}  // namespace grouped

void BenchGrouped(Bench* bench) {
  SetGemmTuning(true);
  for (const grouped::Linear& linear : grouped::kLinears) {
    for (const int64_t mean : grouped::kMeans) {
      const std::vector<grouped::Spread> spreads = grouped::Spreads(mean);
      for (const grouped::NamedPass& pass : grouped::kPasses) {
        for (const grouped::Spread& spread : spreads) {
          grouped::BenchPass(bench, linear, mean, pass, spread);
        }
      }
    }
  }
  SetGemmTuning(false);
  for (const grouped::Linear& linear : grouped::kLinears) {
    for (const int64_t rank : {16, 64}) {
      for (const grouped::Spread& spread : grouped::Spreads(512)) {
        grouped::BenchAdapters(bench, linear, rank, spread);
      }
    }
  }
}

}  // namespace coxswain::kernels::bench
