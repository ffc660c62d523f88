#include "worker/engine/snapshot.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/hash.h"
#include "kernels/device.h"

namespace coxswain::engine {

std::string TakeSnapshot(const plan::Plan& plan, const ParameterLayout& layout,
                         const SnapshotCounters& counters, const Buffers& buffers,
                         kernels::Stream* stream) {
  float* masters = buffers.snapshot;
  float* m = masters + layout.trainable;
  float* v = m + layout.trainable;
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    if (!plan.parameters[i].trainable()) continue;
    kernels::CopyMemory(masters + layout.gradient_offset[i],
                        buffers.weights + layout.weight_offset[i],
                        plan.parameters[i].elements() * 4, stream);
  }
  kernels::CopyMemory(m, buffers.adam_m, layout.trainable * 4, stream);
  kernels::CopyMemory(v, buffers.adam_v, layout.trainable * 4, stream);
  kernels::Synchronize(stream);

  Sha256Stream hash;
  hash.Update(absl::StrCat(counters.finished_steps, " ", counters.applied_updates, " "));
  std::vector<char> staging(static_cast<size_t>(1) << 20);
  const int64_t total = 3 * layout.trainable * 4;
  for (int64_t begin = 0; begin < total; begin += static_cast<int64_t>(staging.size())) {
    const int64_t count = std::min<int64_t>(total - begin, static_cast<int64_t>(staging.size()));
    kernels::CopyMemory(staging.data(), reinterpret_cast<const char*>(masters) + begin, count,
                        stream);
    kernels::Synchronize(stream);
    hash.Update(std::string_view(staging.data(), static_cast<size_t>(count)));
  }
  return ToHex(hash.Finish());
}

}  // namespace coxswain::engine
