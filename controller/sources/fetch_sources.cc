#include "controller/sources/fetch_sources.h"

#include <chrono>
#include <set>
#include <utility>

#include "common/hub/download.h"
#include "common/hub/download_options.h"
#include "common/status_macros.h"
#include "common/web/fetch_url.h"
#include "controller/data/repository/snapshot_data.h"
#include "controller/sources/pin_url.h"

namespace coxswain::sources {
namespace {

using Clock = std::chrono::steady_clock;
using Patterns = std::vector<std::string>;

// What training reads of a drawn model: all but its weights.
const Patterns& WithoutWeights() {
  static const auto* const kNames =
      new Patterns{"*.json", "*.jinja", "*.model", "*.tiktoken", "vocab.txt", "merges.txt"};
  return *kNames;
}

// The data files, and what names them.
absl::StatusOr<Patterns> FilesOfDataset(const config::DatasetSpec& dataset) {
  ASSIGN_OR_RETURN(const data::DatasetFiles files, data::FilesOfSnapshot(dataset));
  const size_t folder = dataset.path.size() + 1;
  std::set<std::string> paths = {"README.md"};
  for (const std::string& path : files.paths) paths.insert(hub::PatternOf(path.substr(folder)));
  return Patterns(paths.begin(), paths.end());
}

class Fetcher {
 public:
  Fetcher(const HubCaller& caller, const FetchHooks& hooks) : caller_(caller), hooks_(hooks) {}

  absl::Status Fetch(hub::RepositoryType type, const config::HubSource& source,
                     const Patterns& include) {
    ASSIGN_OR_RETURN(const hub::Repository repository,
                     hub::MakeRepository(type, source.id, source.revision));
    FetchedSource fetched{.source = hub::NameOf(repository), .directory = {}};
    const Clock::time_point begin = Clock::now();
    hub::DownloadOptions options{.include = include, .cancelled = hooks_.cancelled, .progress = {}};
    if (hooks_.progress) {
      options.progress = [&](const hub::Progress& progress) {
        hooks_.progress(fetched.source, progress);
      };
    }
    ASSIGN_OR_RETURN(const hub::Snapshot snapshot,
                     hub::Download(caller_.settings, repository, source.revision, options));
    fetched.directory = snapshot.path;
    fetched.files = static_cast<int64_t>(snapshot.files.size());
    for (const hub::HubFile& file : snapshot.files) fetched.bytes += file.bytes;
    fetched.fetched_bytes = snapshot.fetched_bytes;
    fetched.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    done_.push_back(std::move(fetched));
    return absl::OkStatus();
  }

  // Of `revision`. An upload is there.
  absl::Status FetchUrl(web::UrlKind kind, const std::string& url, const std::string& revision) {
    if (IsUpload(url)) return absl::OkStatus();
    ASSIGN_OR_RETURN(const web::UrlSource source, web::MakeUrlSource(kind, url));
    FetchedSource fetched{.source = web::NameOf(source), .directory = {}};
    const Clock::time_point begin = Clock::now();
    web::UrlHooks hooks{.cancelled = hooks_.cancelled, .progress = {}};
    if (hooks_.progress) {
      hooks.progress = [&](const hub::Progress& progress) {
        hooks_.progress(fetched.source, progress);
      };
    }
    ASSIGN_OR_RETURN(const web::UrlCopy copy,
                     web::FetchUrl(caller_.settings, source, revision, hooks));
    fetched.directory = copy.path;
    fetched.files = static_cast<int64_t>(copy.files.size());
    for (const web::UrlFile& file : copy.files) fetched.bytes += file.bytes;
    fetched.fetched_bytes = copy.fetched_bytes;
    fetched.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    done_.push_back(std::move(fetched));
    return absl::OkStatus();
  }

  std::vector<FetchedSource> Done() { return std::move(done_); }

 private:
  const HubCaller& caller_;
  const FetchHooks& hooks_;
  std::vector<FetchedSource> done_;
};

}  // namespace

bool NamesSources(const config::JobSpec& job) {
  if (!job.model_hub.id.empty() || !job.model_url.empty()) return true;
  for (const auto* datasets : {&job.datasets, &job.test_datasets}) {
    for (const config::DatasetSpec& dataset : *datasets) {
      if (!dataset.hub.id.empty() || !dataset.url.empty()) return true;
    }
  }
  return false;
}

bool AsksTheHub(const config::JobSpec& job) {
  return NamesSources(job) || !job.push_to_hub.repo.empty();
}

absl::StatusOr<std::vector<FetchedSource>> FetchSources(const HubCaller& caller,
                                                        const config::JobSpec& job,
                                                        const FetchHooks& hooks) {
  Fetcher fetcher(caller, hooks);
  // Data first: it is small, and what is wrong with it is told before gigabytes come.
  for (const auto* datasets : {&job.datasets, &job.test_datasets}) {
    for (const config::DatasetSpec& dataset : *datasets) {
      if (!dataset.url.empty()) {
        RETURN_IF_ERROR(fetcher.FetchUrl(web::UrlKind::kFile, dataset.url, dataset.hub.revision));
      }
      if (dataset.hub.id.empty()) continue;
      ASSIGN_OR_RETURN(const Patterns include, FilesOfDataset(dataset));
      RETURN_IF_ERROR(fetcher.Fetch(hub::RepositoryType::kDataset, dataset.hub, include));
    }
  }
  if (!job.model_hub.id.empty()) {
    const bool drawn = job.init == BaseInit::kRandom;
    RETURN_IF_ERROR(fetcher.Fetch(hub::RepositoryType::kModel, job.model_hub,
                                  drawn ? WithoutWeights() : Patterns()));
  }
  if (!job.model_url.empty()) {
    RETURN_IF_ERROR(fetcher.FetchUrl(web::UrlKind::kModel, job.model_url, job.model_hub.revision));
  }
  return fetcher.Done();
}

}  // namespace coxswain::sources
