// The linker leads the engine's calls of RopeBackward here (--wrap in CMakeLists.txt).
#include "bench/worker/engine/broken_rope.h"

#include "kernels/rope.h"

#define COXSWAIN_ROPE_BACKWARD "_ZN8coxswain7kernels12RopeBackwardERKNS0_8RopeArgsEPNS0_6StreamE"

namespace coxswain::bench {
namespace {

bool broken = false;

}  // namespace

void BreakRopeBackward() { broken = true; }

void RealRopeBackward(const kernels::RopeArgs& args,
                      kernels::Stream* stream) asm("__real_" COXSWAIN_ROPE_BACKWARD);
void RopeBackward(const kernels::RopeArgs& args,
                  kernels::Stream* stream) asm("__wrap_" COXSWAIN_ROPE_BACKWARD);
void RopeBackward(const kernels::RopeArgs& args, kernels::Stream* stream) {
  if (!broken) RealRopeBackward(args, stream);
}

}  // namespace coxswain::bench
