// Gate and up of a mixture's experts with the gate behind them: in one launch, beside the two ops
// and beside the product alone, which no fusion is faster than. Three turns of each, as the power
// limit moves the clock. Rows an expert are as many as draws give each.
#include "kernels/experts/grouped_gated_linear.h"

#include <string>
#include <vector>

#include "bench/kernels/cuda/expert_rows.h"
#include "bench/kernels/cuda/harness.h"
#include "kernels/experts/grouped_linear.h"
#include "kernels/experts/plain_grouped_gated_linear.h"

namespace coxswain::kernels::bench {
namespace grouped_gated {
namespace {

struct GateUp {
  const char* model;
  int64_t experts, in, inner;
  bool clamped;  // and with a bias
};
constexpr GateUp kGateUps[] = {{"qwen3", 128, 2048, 768, false}, {"gpt-oss", 32, 2880, 2880, true}};

GroupedGatedLinearForwardArgs Make(const GateUp& g, const std::vector<int32_t>& offsets,
                                   Memory* memory) {
  const int64_t rows = offsets.back();
  return {.spec = {.dtype = kBF16,
                   .experts = g.experts,
                   .in_features = g.in,
                   .intermediate = g.inner,
                   .alpha = g.clamped ? 1.702f : 0.0f,
                   .limit = g.clamped ? 7.0f : 0.0f},
          .rows = rows,
          .offsets = memory->Upload(offsets),
          .x = memory->BFloat16(rows * g.in),
          .weight = memory->BFloat16(g.experts * 2 * g.inner * g.in),
          .bias = g.clamped ? memory->BFloat16(g.experts * 2 * g.inner) : nullptr,
          .gate_up = memory->BFloat16(rows * 2 * g.inner),
          .y = memory->BFloat16(rows * g.inner)};
}

void ProductAlone(const GroupedGatedLinearForwardArgs& args, Stream* stream) {
  GroupedLinearForward({.spec = {.dtype = args.spec.dtype,
                                 .experts = args.spec.experts,
                                 .in_features = args.spec.in_features,
                                 .out_features = 2 * args.spec.intermediate},
                        .rows = args.rows,
                        .offsets = args.offsets,
                        .x = args.x,
                        .weight = args.weight,
                        .bias = args.bias,
                        .y = args.gate_up},
                       stream);
}

void WithoutGateUp(const GroupedGatedLinearForwardArgs& args, Stream* stream) {
  GroupedGatedLinearForwardArgs alone = args;
  alone.wants_gate_up = false;
  GroupedGatedLinearForward(alone, stream);
}

struct Way {
  const char* name;
  void (*launch)(const GroupedGatedLinearForwardArgs&, Stream*);
};
constexpr Way kWays[] = {{" in two", PlainGroupedGatedLinearForward},
                         {" in one", GroupedGatedLinearForward},
                         {" in one, y alone", WithoutGateUp},
                         {" product alone", ProductAlone}};

void BenchWay(Bench* bench, const GateUp& g, int64_t mean, const Way& way, int turn) {
  const std::vector<int32_t> offsets = OffsetsOf(DrawnRows(g.experts, mean));
  const int64_t rows = offsets.back();
  bench->Time({.name = std::string("grouped gated ") + g.model + " " + std::to_string(mean) +
                       way.name + " turn " + std::to_string(turn),
               .extents = std::to_string(rows) + " x " + std::to_string(2 * g.inner) + " x " +
                          std::to_string(g.in),
               .flops = 2.0 * static_cast<double>(rows) * static_cast<double>(2 * g.inner) *
                        static_cast<double>(g.in),
               .make = [&](Memory* memory) -> Launch {
                 const GroupedGatedLinearForwardArgs args = Make(g, offsets, memory);
                 return [=, launch = way.launch](Stream* s) { launch(args, s); };
               }});
}

}  // namespace
}  // namespace grouped_gated

void BenchGroupedGated(Bench* bench) {
  for (const grouped_gated::GateUp& g : grouped_gated::kGateUps) {
    for (const int64_t mean : {2048, 1024, 512, 64}) {
      for (int turn = 1; turn <= 3; ++turn) {
        for (const grouped_gated::Way& way : grouped_gated::kWays) {
          grouped_gated::BenchWay(bench, g, mean, way, turn);
        }
      }
    }
  }
}

}  // namespace coxswain::kernels::bench
