// The linker leads the engine's calls of RouteForward here (--wrap in CMakeLists.txt). An engine
// keeps the ids of each layer until backward, so that they are still there after a step, also of a
// graph, which calls nothing again.
#include "bench/worker/engine/routed_ids.h"

#include <algorithm>
#include <utility>

#include "kernels/device.h"
#include "kernels/experts/route.h"

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
  std::erase(all, -1);  // of padding
  return all;
}

void RealRouteForward(const kernels::RouteForwardArgs& args,
                      kernels::Stream* stream) asm("__real_" COXSWAIN_ROUTE);
void RouteForward(const kernels::RouteForwardArgs& args,
                  kernels::Stream* stream) asm("__wrap_" COXSWAIN_ROUTE);
void RouteForward(const kernels::RouteForwardArgs& args, kernels::Stream* stream) {
  RealRouteForward(args, stream);
  const auto known = std::find_if(layers.begin(), layers.end(),
                                  [&](const auto& layer) { return layer.first == args.ids; });
  const int64_t count = args.tokens * args.spec.chosen;
  if (known == layers.end()) {
    layers.emplace_back(args.ids, count);
  } else {
    known->second = count;
  }
}

}  // namespace coxswain::bench
