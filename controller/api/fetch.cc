#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/guarded.h"
#include "controller/api/artifacts.h"
#include "controller/api/operations.h"

namespace coxswain::api {
namespace {

constexpr int64_t kChunk = 1 << 20;

// One open call: reads the next chunk when the client took the one before.
class Fetcher : public std::enable_shared_from_this<Fetcher> {
 public:
  Fetcher(Context* context, ArtifactPlaces places, std::string name,
          std::shared_ptr<Sink<v1::FetchResponse>> sink)
      : context_(context),
        places_(std::move(places)),
        name_(std::move(name)),
        sink_(std::move(sink)) {}

  // Only names that ListArtifacts shows exist: no path can leave the directories. Invariant api-3.
  void Start() {
    auto found = std::make_shared<absl::StatusOr<std::vector<FoundArtifact>>>();
    Files* files = context_->deps.files;
    context_->deps.loop->Offload(
        Lane::kRequests,
        GuardedInto(found,
                    [files, places = places_, found] { *found = FindArtifacts(files, places); }),
        [self = shared_from_this(), found] { self->OnListed(*found); });
  }

 private:
  void OnListed(const absl::StatusOr<std::vector<FoundArtifact>>& found) {
    if (!found.ok()) {
      sink_->Finish(found.status());
      return;
    }
    const auto known = std::find_if(found->begin(), found->end(), [this](const auto& one) {
      return one.artifact.name() == name_;
    });
    if (known == found->end()) {
      sink_->Finish(
          absl::NotFoundError(absl::StrCat("no artifact '", name_, "' in ", places_.directory)));
      return;
    }
    path_ = known->path;
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
        GuardedInto(chunk, [files, path = path_, offset = offset_,
                            chunk] { *chunk = files->ReadAt(path, offset, kChunk); }),
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
  const ArtifactPlaces places_;
  const std::string name_;
  std::string path_;
  const std::shared_ptr<Sink<v1::FetchResponse>> sink_;
  int64_t offset_ = 0;
  bool reading_ = false;
};

}  // namespace

void Fetch(Context& context, const v1::FetchRequest& request,
           std::shared_ptr<Sink<v1::FetchResponse>> sink) {
  absl::StatusOr<driver::JobDriver*> job = context.jobs->Find(request.job());
  absl::StatusOr<ArtifactPlaces> places = job.ok() ? PlacesOf((*job)->job()) : job.status();
  if (!places.ok()) {
    sink->Finish(places.status());
    return;
  }
  std::make_shared<Fetcher>(&context, *std::move(places), request.name(), std::move(sink))->Start();
}

}  // namespace coxswain::api
