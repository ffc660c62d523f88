#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/api/artifacts.h"
#include "controller/api/operations.h"

namespace coxswain::api {
namespace {

constexpr int64_t kChunk = 1 << 20;

// One open call: reads the next chunk when the client took the one before.
class Fetcher : public std::enable_shared_from_this<Fetcher> {
 public:
  Fetcher(Context* context, std::string directory, std::string name,
          std::shared_ptr<Sink<v1::FetchResponse>> sink)
      : context_(context),
        directory_(std::move(directory)),
        name_(std::move(name)),
        sink_(std::move(sink)) {}

  // Only names that ListArtifacts shows exist: no path can leave the directory. Invariant api-3.
  void Start() {
    auto found = std::make_shared<absl::StatusOr<std::vector<v1::Artifact>>>();
    Files* files = context_->deps.files;
    context_->deps.loop->Offload(
        Lane::kRequests,
        [files, directory = directory_, found] { *found = FindArtifacts(files, directory); },
        [self = shared_from_this(), found] { self->OnListed(*found); });
  }

 private:
  void OnListed(const absl::StatusOr<std::vector<v1::Artifact>>& found) {
    if (!found.ok()) {
      sink_->Finish(found.status());
      return;
    }
    const bool known = std::any_of(found->begin(), found->end(), [this](const auto& artifact) {
      return artifact.name() == name_;
    });
    if (!known) {
      sink_->Finish(absl::NotFoundError(absl::StrCat("no artifact '", name_, "' in ", directory_)));
      return;
    }
    sink_->OnRoom([self = shared_from_this()] { self->Read(); });
    Read();
  }

  void Read() {
    if (!sink_->open() || reading_) return;
    reading_ = true;
    auto chunk = std::make_shared<absl::StatusOr<std::string>>();
    Files* files = context_->deps.files;
    context_->deps.loop->Offload(
        Lane::kRequests,
        [files, path = absl::StrCat(directory_, "/", name_), offset = offset_, chunk] {
          *chunk = files->ReadAt(path, offset, kChunk);
        },
        [self = shared_from_this(), chunk] { self->OnChunk(*chunk); });
  }

  void OnChunk(const absl::StatusOr<std::string>& chunk) {
    reading_ = false;
    if (!chunk.ok()) {
      sink_->Finish(chunk.status());
      return;
    }
    if (chunk->empty()) {
      sink_->Finish(absl::OkStatus());
      return;
    }
    offset_ += static_cast<int64_t>(chunk->size());
    v1::FetchResponse response;
    response.set_data(*chunk);
    sink_->Send(response);
  }

  Context* const context_;
  const std::string directory_;
  const std::string name_;
  const std::shared_ptr<Sink<v1::FetchResponse>> sink_;
  int64_t offset_ = 0;
  bool reading_ = false;
};

}  // namespace

void Fetch(Context& context, const v1::FetchRequest& request,
           std::shared_ptr<Sink<v1::FetchResponse>> sink) {
  absl::StatusOr<driver::JobDriver*> job = context.jobs->Find(request.job());
  if (!job.ok()) {
    sink->Finish(job.status());
    return;
  }
  const std::string directory = (*job)->job().artifact_dir();
  if (directory.empty()) {
    sink->Finish(absl::FailedPreconditionError(
        absl::StrCat("job ", (*job)->job().id(), " has no artifacts yet")));
    return;
  }
  std::make_shared<Fetcher>(&context, directory, request.name(), std::move(sink))->Start();
}

}  // namespace coxswain::api
