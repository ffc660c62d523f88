#include "controller/driver/preparation/choose_resources.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/scheduler/registry.h"

namespace coxswain::driver {
namespace {

struct Living {
  int64_t count = 0;
  std::set<std::string> names;  // of their devices
};

// Those that a job can be given, now or when another is done with them.
Living LivingOf(config::Device device, const std::vector<scheduler::Worker>& workers) {
  Living living;
  for (const scheduler::Worker& worker : workers) {
    const bool gone = worker.status.phase == state::WorkerPhase::kLost || worker.status.draining ||
                      !worker.cordoned.empty();
    if (gone || worker.hello.build().device() != config::DeviceName(device)) continue;
    ++living.count;
    living.names.insert(worker.hello.device_name());
  }
  return living;
}

}  // namespace

std::string ResourceChoice::Text() const {
  return absl::StrCat("device: ", config::DeviceName(device), ", workers: ", workers, " (", reason,
                      ")");
}

std::optional<ResourceChoice> ChooseResources(const config::JobSpec& job,
                                              const std::vector<scheduler::Worker>& workers) {
  ResourceChoice choice{.device = job.device};
  if (job.device == config::Device::kAuto) {
    const bool cuda = LivingOf(config::Device::kCuda, workers).count > 0;
    choice.device = cuda ? config::Device::kCuda : config::Device::kCpu;
  }
  const Living living = LivingOf(choice.device, workers);
  if (living.count == 0) return std::nullopt;
  choice.workers = job.workers > 0 ? job.workers : living.count;
  const bool no_gpu = job.device == config::Device::kAuto && choice.device == config::Device::kCpu;
  choice.final = !no_gpu && job.workers > 0;
  choice.reason = absl::StrCat("auto: ", no_gpu ? "no GPU worker is registered, " : "",
                               living.count, living.count == 1 ? " worker" : " workers");
  if (!no_gpu) absl::StrAppend(&choice.reason, ", ", absl::StrJoin(living.names, ", "));
  return choice;
}

ResourceChoice AssumedResources(const config::JobSpec& job) {
  const bool open = job.device == config::Device::kAuto;
  return {.device = open ? config::Device::kCpu : job.device,
          .workers = std::max<int64_t>(job.workers, 1),
          .reason = "auto: assumed, because no worker has registered yet"};
}

}  // namespace coxswain::driver
