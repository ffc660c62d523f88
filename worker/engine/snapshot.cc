#include "worker/engine/snapshot.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/hash.h"
#include "common/plan/snapshot_map.h"
#include "kernels/device.h"

namespace coxswain::engine {

std::string TakeSnapshot(const ParameterLayout& layout, const SnapshotCounters& counters,
                         const Buffers& buffers, kernels::Stream* stream) {
  char* out = buffers.snapshot;
  const auto append = [&out, stream](const void* data, int64_t bytes) {
    kernels::CopyMemory(out, data, bytes, stream);
    out += bytes;
  };
  for (size_t s = 0; s < buffers.states.size(); ++s) {
    append(buffers.states[s], layout.map.states[s]);
  }
  for (size_t f = 0; f < layout.map.flats.size(); ++f) {
    const plan::Flat& flat = layout.map.flats[f];
    if (!flat.trained()) continue;
    const FlatMemory& memory = buffers.flats[f];
    append(memory.master != nullptr ? memory.master : memory.owned,
           plan::StorageBytes(flat.storage.trained_values(), flat.owned));
  }
  kernels::Synchronize(stream);

  Sha256Stream hash;
  hash.Update(absl::StrCat(counters.finished_steps, " ", counters.applied_updates, " "));
  hash.Update(
      std::string_view(buffers.snapshot, static_cast<size_t>(plan::SnapshotMap(layout.map).bytes)));
  return ToHex(hash.Finish());
}

}  // namespace coxswain::engine
