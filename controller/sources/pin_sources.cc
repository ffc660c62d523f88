#include "controller/sources/pin_sources.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/config/parser/pinned_sources.h"
#include "common/files/read_file.h"
#include "common/hub/download.h"
#include "common/hub/download_options.h"
#include "common/status_macros.h"
#include "controller/data/repository/converted_branch.h"
#include "controller/data/repository/snapshot_data.h"
#include "controller/sources/pin_url.h"

namespace coxswain::sources {
namespace {

using Files = std::vector<hub::HubFile>;

constexpr char kReadme[] = "README.md";
constexpr char kConfig[] = "config.json";

// Null: there is no such file.
const hub::HubFile* FindFile(const Files& files, const std::string& path) {
  const auto found = std::find_if(files.begin(), files.end(),
                                  [&](const hub::HubFile& file) { return file.path == path; });
  return found == files.end() ? nullptr : &*found;
}

bool IsSmaller(const hub::HubFile& a, const hub::HubFile& b) { return a.bytes < b.bytes; }

absl::Status Named(const std::string& key, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(key, ": ", std::string(status.message())));
}

// Somebody waits for the answer: a Hub that is away is told of within half a minute.
HubCaller Hurried(HubCaller caller) {
  hub::Limits& limits = caller.settings.limits;
  limits.attempts = std::min(limits.attempts, 3);
  limits.connect = std::min(limits.connect, std::chrono::milliseconds(5'000));
  limits.stall = std::min(limits.stall, std::chrono::seconds(6));
  limits.longest_wait = std::min(limits.longest_wait, std::chrono::seconds(10));
  return caller;
}

// A repository at a commit.
struct Pinned {
  hub::Repository repository;  // with the revision that was asked for
  std::string commit;
  Files files;
  std::string folder;  // of the snapshot
  std::string note;
};

class Pinner {
 public:
  Pinner(const HubCaller& caller, const std::function<bool()>& cancelled)
      : caller_(caller), cancelled_(cancelled) {}

  // `small`: the file that is fetched, where the commit has it.
  absl::StatusOr<Pinned> Pin(hub::RepositoryType type, const config::HubSource& source,
                             const std::string& small) {
    const std::string revision =
        source.revision.empty() ? std::string(hub::kDefaultRevision) : source.revision;
    Pinned pinned;
    ASSIGN_OR_RETURN(pinned.repository, hub::MakeRepository(type, source.id, revision));
    ASSIGN_OR_RETURN(const hub::ResolvedCommit resolved,
                     hub::ResolveCommit(caller_.settings, pinned.repository, cancelled_));
    pinned.commit = resolved.commit;
    if (!resolved.from_cache.ok()) {
      pinned.note = absl::StrCat(std::string(resolved.from_cache.message()),
                                 "; the commit that the cache has is taken");
    }
    ASSIGN_OR_RETURN(pinned.files, hub::ListFiles(caller_.settings, pinned.repository,
                                                  pinned.commit, cancelled_));
    // The files come later, by the commit. A cache that is read only may have all of them.
    hub::NoteRevision(caller_.settings, pinned.repository, pinned.commit).IgnoreError();
    pinned.folder = hub::SnapshotFolder(caller_.settings, pinned.repository, pinned.commit);
    RETURN_IF_ERROR(Fetch(pinned, small));
    return pinned;
  }

 private:
  absl::Status Fetch(const Pinned& pinned, const std::string& small) {
    const hub::HubFile* file = FindFile(pinned.files, small);
    if (caller_.must_ask) RETURN_IF_ERROR(Ask(pinned, file));
    if (file == nullptr) return absl::OkStatus();
    if (file->bytes > kMaxConfigBytes) {
      return TooManyBytes(absl::StrCat(small, " of ", hub::NameOf(pinned.repository)), file->bytes,
                          kMaxConfigBytes);
    }
    return hub::Download(caller_.settings, pinned.repository, pinned.commit,
                         {.include = {small}, .cancelled = cancelled_, .progress = {}})
        .status();
  }

  // Whether the caller may read the repository, by `file` or, without one, by its smallest file.
  absl::Status Ask(const Pinned& pinned, const hub::HubFile* file) {
    if (caller_.settings.offline) {
      return absl::PermissionDeniedError(absl::StrCat(
          "HF_HUB_OFFLINE is set at the controller, so that the Hub cannot be asked whether this "
          "user may read ",
          hub::NameOf(pinned.repository), "; an operator may name the user in --hub-token-users"));
    }
    if (file == nullptr && !pinned.files.empty()) {
      file = &*std::min_element(pinned.files.begin(), pinned.files.end(), IsSmaller);
    }
    if (file == nullptr) return absl::OkStatus();  // nothing to read
    return hub::CheckAccess(caller_.settings, pinned.repository, pinned.commit, file->path,
                            cancelled_);
  }

  const HubCaller& caller_;
  const std::function<bool()>& cancelled_;
};

PinnedSource SourceOf(const Pinned& pinned) {
  return {.source = hub::NameOf(pinned.repository),
          .revision = pinned.repository.revision,
          .commit = pinned.commit,
          .note = pinned.note};
}

absl::Status CheckModelFiles(const Pinned& pinned, bool random) {
  if (FindFile(pinned.files, kConfig) == nullptr) {
    return absl::NotFoundError(absl::StrCat(hub::NameOf(pinned.repository), " at ",
                                            pinned.repository.revision,
                                            " has no config.json; give a model's repository"));
  }
  if (random) return absl::OkStatus();
  for (const hub::HubFile& file : pinned.files) {
    const bool top = file.path.find('/') == std::string::npos;
    if (top && (file.path.ends_with(".safetensors") || file.path.starts_with("pytorch_model"))) {
      return absl::OkStatus();
    }
  }
  return absl::NotFoundError(absl::StrCat(
      hub::NameOf(pinned.repository), " at ", pinned.repository.revision,
      " has no *.safetensors and no pytorch_model.bin in its first folder; it cannot be trained"));
}

PinnedSource SourceOf(const PinnedUrl& pinned) {
  return {.source = pinned.name, .revision = "", .commit = pinned.revision, .note = pinned.note};
}

absl::Status PinModelUrl(const HubCaller& caller, const std::function<bool()>& cancelled,
                         config::JobSpec* spec, PinnedJob* job) {
  if (spec->model_url.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const PinnedUrl pinned,
                   PinUrl(caller, web::UrlKind::kModel, spec->model_url, cancelled));
  spec->model_path = pinned.path;
  spec->model_hub.revision = pinned.revision;
  job->sources.push_back(SourceOf(pinned));
  return absl::OkStatus();
}

absl::Status PinUrls(const HubCaller& caller, const std::function<bool()>& cancelled,
                     std::vector<config::DatasetSpec>* datasets, const std::string& key,
                     PinnedJob* job) {
  for (size_t i = 0; i < datasets->size(); ++i) {
    config::DatasetSpec& dataset = (*datasets)[i];
    if (dataset.url.empty()) continue;
    const auto pinned = PinUrl(caller, web::UrlKind::kFile, dataset.url, cancelled);
    if (!pinned.ok()) return Named(absl::StrCat("spec.", key, "[", i, "]"), pinned.status());
    dataset.path = pinned->path;
    dataset.hub.revision = pinned->revision;
    job->sources.push_back(SourceOf(*pinned));
  }
  return absl::OkStatus();
}

absl::Status PinModel(Pinner* pinner, config::JobSpec* spec, PinnedJob* job) {
  if (spec->model_hub.id.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Pinned pinned,
                   pinner->Pin(hub::RepositoryType::kModel, spec->model_hub, kConfig));
  RETURN_IF_ERROR(CheckModelFiles(pinned, spec->init == BaseInit::kRandom));
  spec->model_path = pinned.folder;
  spec->model_hub.revision = pinned.commit;
  job->sources.push_back(SourceOf(pinned));
  return absl::OkStatus();
}

void Take(const Pinned& pinned, config::DatasetSpec* dataset) {
  dataset->path = pinned.folder;
  dataset->hub.revision = pinned.commit;
}

// A repository that needs a script is read from the branch that the Hub converted.
absl::StatusOr<Pinned> PinDataset(Pinner* pinner, config::DatasetSpec* dataset) {
  config::HubSource source = dataset->hub;
  if (dataset->converted && source.revision.empty()) source.revision = data::kConvertedBranch;
  ASSIGN_OR_RETURN(Pinned pinned, pinner->Pin(hub::RepositoryType::kDataset, source, kReadme));
  Take(pinned, dataset);
  if (dataset->converted) return pinned;
  ASSIGN_OR_RETURN(const data::RepositoryData found, data::ReadSnapshot(*dataset));
  if (found.use_converted.empty()) return pinned;
  source.revision = data::kConvertedBranch;
  absl::StatusOr<Pinned> converted = pinner->Pin(hub::RepositoryType::kDataset, source, kReadme);
  if (absl::IsNotFound(converted.status())) {
    return data::ResolveConverted({.id = source.id, .files = {}}, found.use_converted).status();
  }
  RETURN_IF_ERROR(converted.status());
  converted->note = absl::StrCat("dataset ", source.id, " ", found.use_converted,
                                 ": the Hub's copy in Parquet is read");
  Take(*converted, dataset);
  dataset->converted = true;
  return converted;
}

absl::Status PinDatasets(Pinner* pinner, std::vector<config::DatasetSpec>* datasets,
                         const std::string& key, PinnedJob* job) {
  for (size_t i = 0; i < datasets->size(); ++i) {
    config::DatasetSpec& dataset = (*datasets)[i];
    if (dataset.hub.id.empty()) continue;
    const std::string place = absl::StrCat("spec.", key, "[", i, "]");
    const absl::StatusOr<Pinned> pinned = PinDataset(pinner, &dataset);
    if (!pinned.ok()) return Named(place, pinned.status());
    const auto files = data::FilesOfSnapshot(dataset);
    if (!files.ok()) return Named(place, files.status());
    job->sources.push_back(SourceOf(*pinned));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PinnedJob> PinSources(const HubCaller& caller, config::ParsedJob job,
                                     const std::function<bool()>& cancelled) {
  PinnedJob pinned{.job = std::move(job)};
  config::JobSpec& spec = pinned.job.spec;
  const HubCaller hurried = Hurried(caller);
  Pinner pinner(hurried, cancelled);
  absl::Status model = PinModel(&pinner, &spec, &pinned);
  if (model.ok()) model = PinModelUrl(hurried, cancelled, &spec, &pinned);
  if (!model.ok()) return Named("spec.base_model", model);
  RETURN_IF_ERROR(PinDatasets(&pinner, &spec.datasets, "datasets", &pinned));
  RETURN_IF_ERROR(PinDatasets(&pinner, &spec.test_datasets, "test_datasets", &pinned));
  RETURN_IF_ERROR(PinUrls(hurried, cancelled, &spec.datasets, "datasets", &pinned));
  RETURN_IF_ERROR(PinUrls(hurried, cancelled, &spec.test_datasets, "test_datasets", &pinned));
  config::WriteSources(&pinned.job);
  if (!spec.push_to_hub.repo.empty() && caller.settings.token.empty()) {
    pinned.warnings.push_back(
        absl::StrCat("export.push_to_hub: there is no token of the Hub for the owner of this job, "
                     "so that the push to ",
                     spec.push_to_hub.repo,
                     " will be refused when the job has trained; give the controller HF_TOKEN, or "
                     "the user's in --hub-tokens-dir, before"));
  }
  return pinned;
}

absl::Status ToldApart(const absl::Status& status) {
  if (!absl::IsUnavailable(status)) return status;
  return absl::FailedPreconditionError(
      absl::StrCat(std::string(status.message()), "; submit the job again when it answers"));
}

std::string LineOf(const PinnedSource& source) {
  if (source.revision.empty()) {
    return absl::StrCat(source.source, source.note.empty() ? "" : "; ", source.note);
  }
  return absl::StrCat(source.source, " at ", source.revision,
                      source.revision == source.commit ? "" : ": commit ",
                      source.revision == source.commit ? "" : source.commit,
                      source.note.empty() ? "" : "; ", source.note);
}

}  // namespace coxswain::sources
