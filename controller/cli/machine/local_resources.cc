#include "controller/cli/machine/local_resources.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/format.h"
#include "common/host.h"
#include "controller/checkpoint/checkpoint_files.h"
#include "controller/checkpoint/manifest.h"

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

int64_t SharedThreads(int64_t workers) {
  return std::max<int64_t>(1, UsableCpus() / std::max<int64_t>(1, workers));
}

int64_t ThreadsOfCheckpoint(Files* files, const config::JobSpec& job) {
  std::vector<std::string> directories = {job.resume};
  if (!job.resume.starts_with('/')) {
    if (job.resume != "auto") return 0;
    directories = checkpoint::CheckpointsNewestFirst(files, job.output_dir)
                      .value_or(std::vector<std::string>());
  }
  for (const std::string& directory : directories) {
    const auto manifest = checkpoint::ReadManifest(files, directory);
    if (manifest.ok() && manifest->threads > 0) return manifest->threads;
  }
  return 0;
}

std::string DoesNotFitHere(uint64_t worker_bytes, int64_t workers, uint64_t machine_bytes,
                           uint64_t plannable_bytes) {
  if (worker_bytes <= plannable_bytes) return "";
  const std::string who =
      workers == 1 ? "the worker needs " : absl::StrCat("each of ", workers, " workers needs ");
  return absl::StrCat("does not fit here: ", who, FormatBytes(worker_bytes), ", this machine has ",
                      FormatBytes(machine_bytes), " of memory, of which ",
                      workers == 1 ? "it" : "each", " may plan with ", FormatBytes(plannable_bytes),
                      "; cox plan --memory-gib ", plannable_bytes >> 30, " says what would fit");
}

}  // namespace coxswain::cli
