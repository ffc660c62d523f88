// The linker leads the engine's calls of RouteForward here (--wrap in CMakeLists.txt). An engine
// keeps the ids of each layer until backward, so that they are still there after a step, also of a
// graph, which calls nothing again.
#include "bench/worker/engine/routed_ids.h"

#include <algorithm>
#include <utility>

#include "kernels/device.h"
#include "kernels/route.h"

#define COXSWAIN_ROUTE "_ZN8coxswain7kernels12RouteForwardERKNS0_16RouteForwardArgsEPNS0_6StreamE"

namespace coxswain::bench {
namespace {

std::vector<std::pair<const int32_t*, int64_t>> layers;  // ids on the device and their count

}  // namespace

std::vector<int32_t> RoutedIds() {
  std::vector<int32_t> all;
  for (const auto& [ids, count] : layers) {
    const size_t before = all.size();
    all.resize(before + static_cast<size_t>(count));
    kernels::CopyMemory(all.data() + before, ids, count * static_cast<int64_t>(sizeof(int32_t)),
                        nullptr);
  }
  kernels::Synchronize(nullptr);
  return all;
}

void RealRouteForward(const kernels::RouteForwardArgs& args,
                      kernels::Stream* stream) asm("__real_" COXSWAIN_ROUTE);
void RouteForward(const kernels::RouteForwardArgs& args,
                  kernels::Stream* stream) asm("__wrap_" COXSWAIN_ROUTE);
void RouteForward(const kernels::RouteForwardArgs& args, kernels::Stream* stream) {
  RealRouteForward(args, stream);
  const bool known = std::any_of(layers.begin(), layers.end(),
                                 [&](const auto& layer) { return layer.first == args.ids; });
  if (!known) layers.emplace_back(args.ids, args.tokens * args.spec.chosen);
}

}  // namespace coxswain::bench
