// The files of models and datasets that a job names come into the cache.
#ifndef COXSWAIN_CONTROLLER_SOURCES_FETCH_SOURCES_H_
#define COXSWAIN_CONTROLLER_SOURCES_FETCH_SOURCES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "common/hub/download_options.h"
#include "controller/sources/hub_access.h"

namespace coxswain::sources {

// One model or dataset, whose files are there.
struct FetchedSource {
  std::string source;         // "model org/name" | "dataset org/name" | a URL
  std::string directory;      // absolute path of the snapshot, or of the file
  int64_t files = 0;          // that the job reads
  int64_t bytes = 0;          // of these files
  int64_t fetched_bytes = 0;  // over the network, by this call
  double seconds = 0;
};

struct FetchHooks {
  std::function<void(const std::string& source, const hub::Progress& progress)> progress = {};
  std::function<bool()> cancelled = {};
};

// Whether the job reads anything that has to be fetched.
bool NamesSources(const config::JobSpec& job);

// Whether its submission needs PinSources.
bool AsksTheHub(const config::JobSpec& job);

// Downloads what is missing of the commits that PinSources set: of a model what training reads, of
// a dataset the files of its splits. Blocks its thread; callbacks come on it. Where the cache has
// everything, nothing is asked. A call that failed or was killed is continued by the next. Errors
// as hub::Download and web::FetchUrl.
absl::StatusOr<std::vector<FetchedSource>> FetchSources(const HubCaller& caller,
                                                        const config::JobSpec& job,
                                                        const FetchHooks& hooks);

}  // namespace coxswain::sources

#endif  // COXSWAIN_CONTROLLER_SOURCES_FETCH_SOURCES_H_
