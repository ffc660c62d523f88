// The gated products: which of the two bodies by table, then that one.
#include "kernels/products/gated_linear.h"

#include "kernels/cuda/products/fused_choice.h"
#include "kernels/cuda/products/fused_gated_linear.h"
#include "kernels/cuda/stream.h"
#include "kernels/products/plain_products.h"

namespace coxswain::kernels {
namespace {

bool Fuses(const GatedLinearSpec& spec) {
  return spec.dtype == DType::kBFloat16 && cuda::Capability() == 90 && spec.hidden % 8 == 0 &&
         spec.intermediate % 8 == 0;
}

template <typename Args, typename Fused, typename Plain>
void Launch(const Args& args, bool backward, const Fused& fused, const Plain& plain,
            Stream* stream) {
  const cuda::GatedKey key{.backward = backward,
                           .rows = args.rows,
                           .hidden = args.spec.hidden,
                           .intermediate = args.spec.intermediate,
                           .activation = args.spec.activation};
  cuda::LaunchFaster(
      cuda::FusedGatedLinearRuns(args), key, [&] { fused(args, nullptr, stream); },
      [&] { plain(args, stream); }, stream);
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
  return Fuses(args.spec) && cuda::AllAligned(args.x, args.weight, args.gate_up, args.y);
}

bool cuda::FusedGatedLinearRuns(const GatedLinearBackwardArgs& args) {
  return Fuses(args.spec) && cuda::AllAligned(args.dout, args.weight, args.gate_up, args.y);
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
