#include "controller/cli/machine/worker_threads.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/host.h"
#include "controller/checkpoint/checkpoint_files.h"
#include "controller/checkpoint/manifest.h"

namespace coxswain::cli {

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

}  // namespace coxswain::cli
