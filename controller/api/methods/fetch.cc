#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/guarded.h"
#include "common/status_macros.h"
#include "controller/api/artifacts.h"
#include "controller/api/operations.h"

namespace coxswain::api {
namespace {

constexpr size_t kChunk = 1 << 20;

// Of kDigestBlockBytes at `offset`; empty at the end of the file. In a lane.
absl::StatusOr<std::string> ReadBlock(Files* files, const FoundArtifact& known, int64_t offset) {
  ASSIGN_OR_RETURN(std::string block, files->ReadAt(known.path, offset, kDigestBlockBytes));
  if (!known.digests) return block;
  if (offset < known.digests->bytes) {
    RETURN_IF_ERROR(CheckBlock(known.path, *known.digests, offset / kDigestBlockBytes, block));
  } else if (!block.empty()) {
    return absl::DataLossError(absl::StrCat(known.path, ": has more than the ",
                                            known.digests->bytes, " bytes that its job wrote"));
  }
  return block;
}

// One open call: reads the next block when the client took the one before, holds it against the
// digest that the job recorded, and sends it in chunks.
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
      sink_->Finish(absl::NotFoundError(
          absl::StrCat("no artifact '", name_, "' in ", places_.artifact.directory)));
      return;
    }
    known_ = *known;
    sink_->OnRoom([self = shared_from_this()] { self->Read(); });
    Read();
  }

  void Read() {
    if (!sink_->open() || reading_) return;
    if (sent_ < block_.size()) {
      SendChunk();
      return;
    }
    reading_ = true;
    auto block = std::make_shared<absl::StatusOr<std::string>>();
    Files* files = context_->deps.files;
    context_->deps.loop->Offload(
        Lane::kRequests,
        GuardedInto(block, [files, known = known_, offset = offset_,
                            block] { *block = ReadBlock(files, known, offset); }),
        [self = shared_from_this(), block] { self->OnBlock(*block); });
  }

  void OnBlock(absl::StatusOr<std::string>& block) {
    reading_ = false;
    if (!block.ok() || block->empty()) {
      sink_->Finish(block.status());
      return;
    }
    offset_ += static_cast<int64_t>(block->size());
    block_ = *std::move(block);
    sent_ = 0;
    SendChunk();
  }

  void SendChunk() {
    v1::FetchResponse response;
    response.set_data(block_.substr(sent_, kChunk));
    sent_ += response.data().size();
    sink_->Send(response);
  }

  Context* const context_;
  const ArtifactPlaces places_;
  const std::string name_;
  FoundArtifact known_;
  std::string block_;
  size_t sent_ = 0;  // bytes of it
  const std::shared_ptr<Sink<v1::FetchResponse>> sink_;
  int64_t offset_ = 0;
  bool reading_ = false;
};

}  // namespace

void Fetch(Context& context, const v1::FetchRequest& request,
           std::shared_ptr<Sink<v1::FetchResponse>> sink) {
  absl::StatusOr<driver::JobDriver*> job = context.jobs->Find(request.job());
  absl::StatusOr<ArtifactPlaces> places =
      job.ok() ? PlacesOf(context.jobs, (*job)->job()) : job.status();
  if (!places.ok()) {
    sink->Finish(places.status());
    return;
  }
  std::make_shared<Fetcher>(&context, *std::move(places), request.name(), std::move(sink))->Start();
}

}  // namespace coxswain::api
