// One pass: 8 bytes an element, 12 with a companion. Every element is independent of every other.
#include "kernels/tensors/gradient_sum.h"

#include <algorithm>

#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/tensors/gradient_sum_element.h"

namespace coxswain::kernels {
namespace {

float FromHalf(uint16_t bits) { return FloatOfBits(uint32_t{bits} << 16); }
uint16_t ToHalf(float x) { return static_cast<uint16_t>(BitsOfFloat(x) >> 16); }

void AddNearest(const AddToGradientArgs& args, int64_t begin, int64_t end) {
  auto* const gradient = static_cast<uint16_t*>(args.gradient);
  for (int64_t i = begin; i < end; ++i) {
    const float before = args.accumulate ? FromHalf(gradient[i]) : 0.0f;
    gradient[i] = ToHalf(RoundToBfloat16(before + args.term[i]));
  }
}

void AddWithCompanion(const AddToGradientArgs& args, int64_t begin, int64_t end) {
  auto* const gradient = static_cast<uint16_t*>(args.gradient);
  auto* const companion = static_cast<uint16_t*>(args.sum.companion);
  for (int64_t i = begin; i < end; ++i) {
    float g = args.accumulate ? FromHalf(gradient[i]) : 0.0f;
    float c = args.accumulate ? FromHalf(companion[i]) : 0.0f;
    AddCompensated(args.term[i], &g, &c);
    gradient[i] = ToHalf(g);
    companion[i] = ToHalf(c);
  }
}

void AddDrawn(const AddToGradientArgs& args, int64_t begin, int64_t end) {
  const GradientSum& sum = args.sum;
  const GradientDraws draws{.bin = sum.bin == nullptr ? 0 : *sum.bin,
                            .step = sum.step == nullptr ? 0 : *sum.step,
                            .part = sum.part};
  auto* const gradient = static_cast<uint16_t*>(args.gradient);
  PhiloxWords words = {};
  for (int64_t i = begin; i < end; ++i) {
    const int64_t element = sum.number + i;
    if (i == begin || element % 8 == 0) {
      words = Philox(GradientDrawsCounter(draws, element / 8), sum.key[0], sum.key[1]);
    }
    const float before = args.accumulate ? FromHalf(gradient[i]) : 0.0f;
    const uint32_t draw = DrawOfElement(words, static_cast<int>(element % 8));
    gradient[i] = ToHalf(CutToBfloat16(before + args.term[i], draw));
  }
}

}  // namespace

void AddToGradient(const AddToGradientArgs& args, Stream* /*stream*/) {
  cpu::RequireExtent(args.count, "AddToGradient", "count");
  const GradientSumMode mode = args.sum.mode;
  cpu::RequireSupported(mode != GradientSumMode::kCompensated || args.sum.companion != nullptr,
                        "AddToGradient without a companion");
  cpu::ParallelFor(args.count, 8, [&](int64_t begin, int64_t end) {
    if (mode == GradientSumMode::kCompensated) return AddWithCompanion(args, begin, end);
    if (mode == GradientSumMode::kStochastic) return AddDrawn(args, begin, end);
    AddNearest(args, begin, end);
  });
}

}  // namespace coxswain::kernels
