// Cross-entropy of one chunk of logits: losses only, and the gradient in place of the logits.
#include "bench/kernels/cuda/harness.h"
#include "kernels/loss/cross_entropy.h"

namespace coxswain::kernels::bench {
namespace {

constexpr int64_t kLossRows = 2048;

void BenchCrossEntropy(Bench* bench, const Shape& m, const std::string& name, bool gradient,
                       const CrossEntropySpec& options) {
  CrossEntropySpec spec = options;
  spec.dtype = DType::kBFloat16;
  spec.vocab = m.vocab;
  std::vector<int32_t> targets;
  for (int64_t row = 0; row < kLossRows; ++row) {
    targets.push_back(static_cast<int32_t>(row * 7919 % m.vocab));
  }
  bench->Time({.name = "cross_entropy " + name,
               .extents = Extents(kLossRows, m.vocab),
               .bytes = (gradient ? 4.0 : 2.0) * static_cast<double>(kLossRows * m.vocab),
               .make = [=](Memory* memory) -> Launch {
                 const CrossEntropyArgs args{
                     .spec = spec,
                     .rows = kLossRows,
                     .logits = memory->BFloat16(kLossRows * m.vocab),
                     .targets = memory->Upload(targets),
                     .gradient_scale =
                         gradient ? memory->Upload<float>({1.0f / kLossRows}) : nullptr,
                     .loss = memory->Floats(kLossRows),
                     .nll = memory->Floats(kLossRows)};
                 return [=](Stream* s) { CrossEntropy(args, s); };
               }});
}

}  // namespace

void BenchLoss(Bench* bench) {
  for (const Shape& m : kShapes) {
    BenchCrossEntropy(bench, m, "loss", false, {});
    BenchCrossEntropy(bench, m, "gradient", true, {});
    BenchCrossEntropy(bench, m, "gradient smoothing, z-loss, softcap", true,
                      {.label_smoothing = 0.1f, .z_loss = 1e-4f, .softcap = 30.0f});
  }
}

}  // namespace coxswain::kernels::bench
