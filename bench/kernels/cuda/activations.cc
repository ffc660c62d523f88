// SwiGLU and GeGLU on packed gate and up, GELU alone. The backward runs in place, so its operands
// shrink from launch to launch: its time does not depend on them.
#include "bench/kernels/cuda/harness.h"
#include "kernels/activations/gates.h"

namespace coxswain::kernels::bench {
namespace {

template <typename Spec, typename ForwardArgs, typename BackwardArgs>
void BenchGated(Bench* bench, const Shape& m, const std::string& name, const Spec& spec,
                void (*forward)(const ForwardArgs&, Stream*),
                void (*backward)(const BackwardArgs&, Stream*), bool amax = false) {
  const int64_t n = m.tokens * m.intermediate;
  bench->Time({.name = name + " forward" + WithAmax(amax),
               .extents = Extents(m.tokens, m.intermediate),
               .bytes = 6.0 * static_cast<double>(n),
               .make = [=](Memory* memory) -> Launch {
                 const ForwardArgs args{.spec = spec,
                                        .rows = m.tokens,
                                        .gate_up = memory->BFloat16(2 * n),
                                        .y = memory->BFloat16(n),
                                        .amax = memory->Amax(amax)};
                 return [=](Stream* s) {
                   ClearAmax(args.amax, s);
                   forward(args, s);
                 };
               }});
  bench->Time({.name = name + " backward" + WithAmax(amax),
               .extents = Extents(m.tokens, m.intermediate),
               .bytes = 10.0 * static_cast<double>(n),
               .make = [=](Memory* memory) -> Launch {
                 const BackwardArgs args{.spec = spec,
                                         .rows = m.tokens,
                                         .dy = memory->BFloat16(n),
                                         .gate_up = memory->BFloat16(2 * n),
                                         .amax = memory->Amax(amax)};
                 return [=](Stream* s) {
                   ClearAmax(args.amax, s);
                   backward(args, s);
                 };
               }});
}

void BenchGelu(Bench* bench, const Shape& m, bool tanh) {
  const GeluSpec spec{.dtype = kBF16, .columns = m.intermediate, .tanh = tanh};
  const std::string name = tanh ? "gelu tanh" : "gelu erf";
  const int64_t n = m.tokens * m.intermediate;
  bench->Time(
      {.name = name + " forward",
       .extents = Extents(m.tokens, m.intermediate),
       .bytes = 4.0 * static_cast<double>(n),
       .make = [=](Memory* memory) -> Launch {
         const GeluForwardArgs args{
             .spec = spec, .rows = m.tokens, .x = memory->BFloat16(n), .y = memory->BFloat16(n)};
         return [=](Stream* s) { GeluForward(args, s); };
       }});
  bench->Time(
      {.name = name + " backward",
       .extents = Extents(m.tokens, m.intermediate),
       .bytes = 6.0 * static_cast<double>(n),
       .make = [=](Memory* memory) -> Launch {
         const GeluBackwardArgs args{
             .spec = spec, .rows = m.tokens, .dy = memory->BFloat16(n), .x = memory->BFloat16(n)};
         return [=](Stream* s) { GeluBackward(args, s); };
       }});
}

}  // namespace

void BenchActivations(Bench* bench) {
  for (const Shape& m : kShapes) {
    const SwigluSpec swiglu{.dtype = kBF16, .intermediate = m.intermediate};
    for (const bool amax : {false, true}) {
      BenchGated(bench, m, "swiglu", swiglu, SwigluForward, SwigluBackward, amax);
    }
    const ClampedSwigluSpec clamped{
        .dtype = kBF16, .intermediate = m.intermediate, .alpha = 1.702f, .limit = 7.0f};
    BenchGated(bench, m, "clamped swiglu", clamped, ClampedSwigluForward, ClampedSwigluBackward);
    for (const bool tanh : {true, false}) {
      const GegluSpec geglu{.dtype = kBF16, .intermediate = m.intermediate, .tanh = tanh};
      BenchGated(bench, m, tanh ? "geglu tanh" : "geglu erf", geglu, GegluForward, GegluBackward);
      BenchGelu(bench, m, tanh);
    }
  }
}

}  // namespace coxswain::kernels::bench
