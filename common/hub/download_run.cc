#include "common/hub/download_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/hub/cache/free_space.h"
#include "common/status_macros.h"

namespace coxswain::hub {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLook{100};       // at cancellation, progress and pieces that are due
constexpr milliseconds kElsewhere{250};  // at downloads of other processes

}  // namespace

DownloadRun::DownloadRun(const DownloadPlace& place, const DownloadOptions& options,
                         const Progress& there, std::vector<BlobSource> missing)
    : place_(place), options_(options), there_(there.bytes) {
  progress_.files = there.files;
  progress_.files_total = there.files + static_cast<int64_t>(missing.size());
  progress_.bytes_total = there.bytes;
  for (const BlobSource& source : missing) progress_.bytes_total += source.bytes;
  for (auto source = missing.rbegin(); source != missing.rend(); ++source) {
    idle_.push_back(std::make_unique<BlobDownload>(place_.settings, std::move(*source)));
  }
}

absl::Status DownloadRun::Run() {
  ASSIGN_OR_RETURN(calls_, HttpCalls::Make(place_.settings, place_.reach));
  while (!idle_.empty() || !active_.empty()) {
    if (options_.cancelled && options_.cancelled()) {
      return absl::CancelledError(absl::StrCat("the download of ", place_.name, " was cancelled"));
    }
    if (absl::Status moved = Move(); !moved.ok()) return Explained(moved);
    Report(/*last=*/false);
  }
  Report(/*last=*/true);
  return absl::OkStatus();
}

absl::Status DownloadRun::Move() {
  RETURN_IF_ERROR(StartPieces());
  const milliseconds most = more_to_digest_ ? milliseconds(0) : kLook;
  if (calls_->running() > 0) {
    RETURN_IF_ERROR(calls_->Wait(most));
  } else {
    (void)Pause(std::min(most, milliseconds(active_.empty() ? 0 : 20)), options_.cancelled);
  }
  RETURN_IF_ERROR(failed_);
  more_to_digest_ = false;
  for (const std::unique_ptr<BlobDownload>& blob : active_) {
    ASSIGN_OR_RETURN(const bool more, blob->Advance());
    more_to_digest_ |= more;
  }
  ForgetDone();
  return absl::OkStatus();
}

absl::Status DownloadRun::StartPieces() {
  const Time now = steady_clock::now();
  const int most = place_.settings.limits.connections;
  if (now >= look_elsewhere_) {
    look_elsewhere_ = now + kElsewhere;
    for (const std::unique_ptr<BlobDownload>& blob : active_) {
      if (blob->state() == BlobDownload::State::kElsewhere) RETURN_IF_ERROR(blob->Begin());
    }
  }
  for (size_t i = 0; calls_->running() < most; ++i) {
    if (i == active_.size()) {
      // Those that wait for their next attempt are enough.
      if (idle_.empty() || OpenBlobs() >= 2 * most) break;
      active_.push_back(std::move(idle_.back()));
      idle_.pop_back();
      RETURN_IF_ERROR(active_.back()->Begin());
    }
    BlobDownload* blob = active_[i].get();
    while (calls_->running() < most) {
      const std::optional<size_t> piece = blob->NextPiece(now);
      if (!piece) break;
      StartPiece(blob, *piece);
    }
  }
  return absl::OkStatus();
}

int DownloadRun::OpenBlobs() const {
  return static_cast<int>(std::count_if(active_.begin(), active_.end(), [](const auto& blob) {
    return blob->state() == BlobDownload::State::kOpen;
  }));
}

void DownloadRun::StartPiece(BlobDownload* blob, size_t index) {
  HttpCall call = blob->CallOf(index);
  call.on_bytes = [this, keep = std::move(call.on_bytes)](std::string_view bytes) {
    fetched_ += static_cast<int64_t>(bytes.size());
    return keep(bytes);
  };
  call.on_end = [this, blob, index](const HttpEnd& end) {
    const absl::Status status = blob->Ended(index, end, steady_clock::now());
    if (failed_.ok()) failed_ = status;
  };
  calls_->Start(std::move(call));
}

void DownloadRun::ForgetDone() {
  for (const std::unique_ptr<BlobDownload>& blob : active_) {
    if (blob->state() != BlobDownload::State::kDone) continue;
    there_ += blob->bytes();
    ++progress_.files;
  }
  std::erase_if(active_, [](const std::unique_ptr<BlobDownload>& blob) {
    return blob->state() == BlobDownload::State::kDone;
  });
}

int64_t DownloadRun::DoneBytes() const {
  int64_t done = there_;
  for (const std::unique_ptr<BlobDownload>& blob : active_) done += blob->done();
  return done;
}

// Only a disk runs out here.
absl::Status DownloadRun::Explained(const absl::Status& status) const {
  if (!absl::IsResourceExhausted(status)) return status;
  return DiskFull(place_.folder, progress_.bytes_total - DoneBytes(), place_.name);
}

void DownloadRun::Report(bool last) {
  const Time now = steady_clock::now();
  if (!options_.progress || (!last && now - reported_ < kLook)) return;
  reported_ = now;
  rate_.Add(fetched_, now);
  progress_.bytes = DoneBytes();
  progress_.bytes_per_second = rate_.BytesPerSecond();
  progress_.waits = idle_.empty() && !active_.empty() &&
                    std::all_of(active_.begin(), active_.end(), [](const auto& blob) {
                      return blob->state() == BlobDownload::State::kElsewhere;
                    });
  options_.progress(progress_);
}

}  // namespace coxswain::hub
