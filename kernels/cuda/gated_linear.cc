// The gated products: which of the two bodies by table, then that one.
#include "kernels/gated_linear.h"

#include "kernels/cuda/fused_gated_linear.h"
#include "kernels/cuda/gemm_table.h"
#include "kernels/cuda/gemm_tuning.h"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/time_in_turns.h"
#include "kernels/plain_gated_linear.h"

namespace coxswain::kernels {
namespace {

template <typename... Pointers>
bool AllAligned(const Pointers*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

bool Fuses(const GatedLinearSpec& spec) {
  return spec.dtype == DType::kBFloat16 && cuda::Capability() == 90 && spec.hidden % 8 == 0 &&
         spec.intermediate % 8 == 0;
}

// Where both run, the table's choice; one is made if there is none.
bool ChooseFused(const cuda::GatedKey& key, const cuda::Alternative& fused,
                 const cuda::Alternative& plain, Stream* stream) {
  cuda::GemmChoices& choices = cuda::GemmChoices::Instance();
  const bool tune = cuda::MayTune(stream);
  const std::optional<cuda::GatedChoice> known = choices.Find(key);
  if (known && (known->settled || !tune)) return known->fused;
  cuda::GatedChoice choice{.fused = true};
  if (tune) {
    const std::vector<double> times = cuda::TimeInTurns({plain, fused}, stream);
    choice = {.fused = times[1] < cuda::kWorthwhile * times[0],
              .plain_microseconds = times[0],
              .fused_microseconds = times[1],
              .settled = true};
  }
  return choices.Remember(key, choice).fused;
}

template <typename Args>
void Launch(const Args& args, bool backward, void (*fused)(const Args&, Stream*),
            void (*plain)(const Args&, Stream*), Stream* stream) {
  const auto alternative = [&](auto* launch) -> cuda::Alternative {
    return [&args, launch, stream] {
      launch(args, stream);
      return true;
    };
  };
  const cuda::GatedKey key{.backward = backward,
                           .rows = args.rows,
                           .hidden = args.spec.hidden,
                           .intermediate = args.spec.intermediate,
                           .activation = args.spec.activation};
  const bool chosen = cuda::FusedGatedLinearRuns(args) &&
                      ChooseFused(key, alternative(fused), alternative(plain), stream);
  (chosen ? fused : plain)(args, stream);
}

template <typename Args>
bool Validate(const Args& args, const Stream* stream, const char* op) {
  cuda::RequireSupported(GatedLinearSupports(args.spec), op);
  cuda::RequireExtent(args.rows, op, "rows");
  if (stream == nullptr) throw std::invalid_argument(std::string(op) + ": needs a stream");
  return args.rows > 0;
}

}  // namespace

bool cuda::FusedGatedLinearRuns(const GatedLinearForwardArgs& args) {
  return Fuses(args.spec) && AllAligned(args.x, args.weight, args.gate_up, args.y);
}

bool cuda::FusedGatedLinearRuns(const GatedLinearBackwardArgs& args) {
  return Fuses(args.spec) && AllAligned(args.dout, args.weight, args.gate_up, args.y);
}

bool GatedLinearSupports(const GatedLinearSpec& spec) { return PlainGatedLinearSupports(spec); }

void GatedLinearForward(const GatedLinearForwardArgs& args, Stream* stream) {
  if (!Validate(args, stream, "GatedLinearForward")) return;
  Launch(args, false, cuda::FusedGatedLinearForward, PlainGatedLinearForward, stream);
}

void GatedLinearBackward(const GatedLinearBackwardArgs& args, Stream* stream) {
  if (!Validate(args, stream, "GatedLinearBackward")) return;
  Launch(args, true, cuda::FusedGatedLinearBackward, PlainGatedLinearBackward, stream);
}

}  // namespace coxswain::kernels
