#include "controller/cli/machine/local_resources.h"

#include <map>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace coxswain::cli {
namespace {

int64_t Count(const Gpus& gpus) { return gpus.ok() ? static_cast<int64_t>(gpus->size()) : 0; }

// "4 NVIDIA H200", or why there is none.
std::string Found(const Gpus& gpus) {
  if (Count(gpus) == 0) {
    if (absl::IsNotFound(gpus.status())) return "no coxswain-worker-cuda is installed here";
    return gpus.ok() ? "no NVIDIA GPU here" : std::string(gpus.status().message());
  }
  std::map<std::string, int> counts;
  for (const std::string& name : *gpus) ++counts[name];
  std::string text;
  for (const auto& [name, count] : counts) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", count, " ", name);
  }
  return text;
}

std::string DeviceLine(config::Device device, const Gpus& gpus) {
  return absl::StrCat("device: ", config::DeviceName(device), " (auto: ", Found(gpus), ")");
}

}  // namespace

absl::StatusOr<LocalResources> ChooseLocally(const config::JobSpec& job, const Gpus& gpus) {
  if (absl::IsCancelled(gpus.status())) return gpus.status();
  LocalResources local;
  config::Device device = job.device;
  if (device == config::Device::kAuto) {
    device = Count(gpus) > 0 ? config::Device::kCuda : config::Device::kCpu;
    local.chosen.device = device;
    local.line = DeviceLine(device, gpus);
  }
  const bool cuda = device == config::Device::kCuda;
  if (job.workers == 0) {
    if (cuda && Count(gpus) == 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("resources: {device: cuda, workers: auto} takes every GPU of this machine: ",
                       Found(gpus)));
    }
    local.chosen.workers = cuda ? Count(gpus) : 1;
    absl::StrAppend(&local.line, local.line.empty() ? "" : ", ", "workers: ", *local.chosen.workers,
                    cuda ? " (auto: every GPU)" : " (auto)");
  } else if (!local.line.empty() && Count(gpus) > job.workers) {
    absl::StrAppend(&local.line, "; resources.workers is ", job.workers, ", auto takes all ",
                    Count(gpus));
  }
  return local;
}

LocalResources AllLocally(const Gpus& gpus) {
  const bool cuda = Count(gpus) > 0;
  LocalResources local;
  local.chosen.device = cuda ? config::Device::kCuda : config::Device::kCpu;
  local.chosen.workers = cuda ? Count(gpus) : 1;
  local.line = DeviceLine(*local.chosen.device, gpus);
  return local;
}

}  // namespace coxswain::cli
