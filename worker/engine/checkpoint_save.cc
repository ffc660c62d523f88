#include <cstdint>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/hash.h"
#include "common/safetensors.h"
#include "common/status_macros.h"
#include "kernels/device.h"
#include "nlohmann/json.hpp"
#include "worker/engine/snapshot.h"
#include "worker/engine/weights.h"

namespace coxswain::engine {
namespace {

TensorSource Source(std::string name, std::vector<int64_t> shape, const float* values) {
  int64_t elements = 1;
  for (int64_t extent : shape) elements *= extent;
  const auto fill = [values, elements](uint8_t* out) {
    kernels::CopyMemory(out, values, elements * 4, nullptr);
    kernels::Synchronize(nullptr);
    return absl::OkStatus();
  };
  return TensorSource{std::move(name), DType::kF32, std::move(shape), fill};
}

std::string Metadata(const plan::Plan& plan, const SnapshotCounters& counters, int rank) {
  return nlohmann::json{{"recipe_hash", ToHex(plan.recipe_hash)},
                        {"finished_steps", counters.finished_steps},
                        {"applied_updates", counters.applied_updates},
                        {"rank", rank},
                        {"world_size", plan.world_size()}}
      .dump();
}

}  // namespace

absl::StatusOr<ShardFile> WriteShard(const plan::Plan& plan, const ParameterLayout& layout,
                                     const SnapshotCounters& counters, const Buffers& buffers,
                                     const ShardPlace& place) {
  std::vector<TensorSource> tensors;
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const plan::Parameter& parameter = plan.parameters[i];
    if (!parameter.trainable() || parameter.save_rank != place.rank) continue;
    const std::vector<int64_t> shape = FileShape(parameter);
    const float* values = buffers.snapshot + layout.gradient_offset[i];
    tensors.push_back(Source(parameter.name, shape, values));
    tensors.push_back(Source(absl::StrCat(parameter.name, ".m"), shape, values + layout.trainable));
    tensors.push_back(
        Source(absl::StrCat(parameter.name, ".v"), shape, values + 2 * layout.trainable));
  }
  const std::string name = absl::StrCat("rank-", place.rank, ".safetensors");
  const std::map<std::string, std::string> metadata = {
      {"format", "pt"}, {"coxswain", Metadata(plan, counters, place.rank)}};
  ASSIGN_OR_RETURN(const WrittenFile written,
                   WriteSafetensors(absl::StrCat(place.directory, "/", name), tensors, metadata));
  return ShardFile{name, written.bytes, written.sha256};
}

}  // namespace coxswain::engine
