// Names of models and datasets become commits: once, when a job is accepted.
#ifndef COXSWAIN_CONTROLLER_SOURCES_PIN_SOURCES_H_
#define COXSWAIN_CONTROLLER_SOURCES_PIN_SOURCES_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/parser/job_parser.h"
#include "controller/sources/hub_access.h"

namespace coxswain::sources {

// One model or dataset, as it was named and as it is read.
struct PinnedSource {
  std::string source;     // "model org/name" | "dataset org/name" | a URL
  std::string revision;   // as the job names it; of a URL empty
  std::string commit;     // of a URL: PinnedUrl::revision
  std::string note = {};  // what the user should know; empty: nothing
};

struct PinnedJob {
  config::ParsedJob job;  // spec and effective_json: revisions are commits, paths are of the cache
  std::vector<PinnedSource> sources = {};  // of the Hub, in the order of the job
  std::vector<std::string> warnings = {};  // of what the job will ask the Hub for later
};

// Asks the Hub for the commit of each model and dataset that `job` names, lists its files, and
// looks that a model has what training reads and a dataset the split that is asked for. Of the
// contents only config.json and README.md are fetched. A dataset that needs a script is set to the
// Hub's copy in Parquet. A job without names of the Hub comes back as it is, and nothing is asked.
// A push without a token is warned of.
//
// A URL is asked for what it holds now, and an upload is looked for.
//
// Errors name the key of the job: as MakeRepository, ResolveCommit, ListFiles and Download (hub),
// ReadSnapshot and FilesOfSnapshot (data), PinUrl; NotFound: the repository is no model.
absl::StatusOr<PinnedJob> PinSources(const HubCaller& caller, config::ParsedJob job,
                                     const std::function<bool()>& cancelled);

// `status` of a call to the Hub for a client of this controller: an Unavailable Hub is a
// FailedPrecondition, because by Unavailable clients know that the controller is away.
absl::Status ToldApart(const absl::Status& status);

// "model org/name at main: commit 0123...": for people.
std::string LineOf(const PinnedSource& source);

}  // namespace coxswain::sources

#endif  // COXSWAIN_CONTROLLER_SOURCES_PIN_SOURCES_H_
