#include "worker/engine/snapshot.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/hash.h"
#include "kernels/device.h"
#include "worker/engine/parameter_store.h"

namespace coxswain::engine {

int64_t SnapshotBytes(const plan::Plan& plan, const ParameterLayout& layout) {
  const int64_t compute = kernels::DTypeBytes(ComputeDType(plan));
  int64_t bytes = 8 * layout.trainable;
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    if (!plan.parameters[i].trainable()) continue;
    bytes += plan.parameters[i].elements() * (layout.master_offset[i] >= 0 ? 4 : compute);
  }
  return bytes;
}

std::string TakeSnapshot(const plan::Plan& plan, const ParameterLayout& layout,
                         const SnapshotCounters& counters, const Buffers& buffers,
                         kernels::Stream* stream) {
  const ParameterStore store(plan, layout, buffers);
  char* out = buffers.snapshot;
  const auto append = [&out, stream](const void* data, int64_t bytes) {
    kernels::CopyMemory(out, data, bytes, stream);
    out += bytes;
  };
  append(buffers.adam_m, layout.trainable * 4);
  append(buffers.adam_v, layout.trainable * 4);
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    if (!plan.parameters[i].trainable()) continue;
    const Values values = store.Trained(i);
    append(values.data, values.elements * kernels::DTypeBytes(values.dtype));
  }
  kernels::Synchronize(stream);

  Sha256Stream hash;
  hash.Update(absl::StrCat(counters.finished_steps, " ", counters.applied_updates, " "));
  hash.Update(std::string_view(buffers.snapshot, static_cast<size_t>(SnapshotBytes(plan, layout))));
  return ToHex(hash.Finish());
}

}  // namespace coxswain::engine
