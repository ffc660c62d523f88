#include "common/hub/blob_download.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/hub/api/url.h"
#include "common/hub/cache/repository_cache.h"
#include "common/outside_text.h"
#include "common/status_macros.h"

namespace coxswain::hub {
namespace {

constexpr int64_t kDigestAtOnce = 8 << 20;
constexpr int kMostExpired = 5;

// A signed address says by these that its time is over.
bool MayHaveExpired(int status) {
  return status == 400 || status == 401 || status == 403 || status == 404 || status == 410;
}

}  // namespace

BlobDownload::BlobDownload(const Settings& settings, BlobSource source)
    : settings_(settings), source_(std::move(source)) {}

int64_t BlobDownload::done() const {
  if (state_ == State::kDone) return bytes();
  return partial_ == nullptr ? 0 : partial_->done();
}

absl::Status BlobDownload::Begin() {
  ASSIGN_OR_RETURN(lock_, FileLock::TryTake(source_.lock));
  if (!lock_) {
    state_ = State::kElsewhere;
    return absl::OkStatus();
  }
  if (IsFileOf(source_.content, bytes())) return Finish("");
  ASSIGN_OR_RETURN(partial_, PartialBlob::Open(source_.partial, source_.digest, bytes(),
                                               settings_.limits.piece_bytes));
  state_ = State::kOpen;
  ResetCalls();
  return absl::OkStatus();
}

void BlobDownload::ResetCalls() {
  calls_.assign(partial_->pieces().size(), PieceCall(settings_.limits));
}

std::optional<size_t> BlobDownload::NextPiece(Time now) const {
  if (state_ != State::kOpen || restart_) return std::nullopt;
  for (size_t i = 0; i < calls_.size(); ++i) {
    if (!calls_[i].running && !partial_->pieces()[i].whole() && calls_[i].due <= now) return i;
  }
  return std::nullopt;
}

bool BlobDownload::AsksForRange(size_t index) const {
  return calls_.size() > 1 || partial_->pieces()[index].done > 0;
}

HttpCall BlobDownload::CallOf(size_t index) {
  PieceCall& call = calls_[index];
  const PartialBlob::Piece& piece = partial_->pieces()[index];
  call.running = true;
  call.by_location = !location_.empty();
  ++running_;
  HttpCall asked{.url = call.by_location ? location_ : source_.url};
  if (AsksForRange(index)) {
    asked.begin = piece.begin + piece.done;
    asked.end = piece.begin + piece.bytes;
  }
  asked.on_head = [this, begin = asked.begin, end = asked.end](const HttpHead& head) {
    return OnHead(begin, end, head);
  };
  asked.on_bytes = [this, index](std::string_view bytes) { return OnBytes(index, bytes); };
  return asked;
}

// Whether what follows is the content that was asked for.
absl::Status BlobDownload::OnHead(int64_t begin, int64_t end, const HttpHead& head) {
  location_ = head.url;
  if (source_.check_head) RETURN_IF_ERROR(source_.check_head(head));
  const bool of_all = end == 0;
  if (!of_all && head.status != 206) {
    without_ranges_ = restart_ = true;
    return absl::AbortedError("the server knows no ranges");
  }
  const std::string range = head.Header("content-range"), length = head.Header("content-length");
  int64_t size = 0;
  const std::string total = of_all ? length : range.substr(range.find('/') + 1);
  const bool known = absl::SimpleAtoi(total, &size);
  const bool right = of_all ? (!known || size == bytes())
                            : range == absl::StrCat("bytes ", begin, "-", end - 1, "/", bytes());
  if (right) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      PublicUrl(head.url), " has ", of_all ? length + " bytes" : OneLine(range, kMostNameBytes),
      " for ", source_.name, ", which has ", bytes(), " bytes at ", source_.version));
}

absl::Status BlobDownload::OnBytes(size_t index, std::string_view bytes) {
  if (restart_) return absl::AbortedError("begins anew");
  calls_[index].retries.BytesCame();
  return partial_->Append(index, bytes);
}

absl::Status BlobDownload::Ended(size_t index, const HttpEnd& end, Time now) {
  PieceCall& call = calls_[index];
  call.running = false;
  --running_;
  if (restart_) return absl::OkStatus();
  const PartialBlob::Piece& piece = partial_->pieces()[index];
  if (end.ok() && piece.whole()) return absl::OkStatus();
  if (call.by_location && MayHaveExpired(end.head.status) && end.failure.empty() &&
      ++expired_ <= kMostExpired) {
    location_.clear();
    return absl::OkStatus();
  }
  HttpEnd how = end;
  if (end.ok()) {
    how.failure = absl::StrCat("the answer ended ", piece.bytes - piece.done, " bytes early");
  }
  const std::optional<std::chrono::milliseconds> delay = call.retries.After(how);
  if (!delay) return source_.failure(how);
  call.due = now + *delay;
  return absl::OkStatus();
}

absl::Status BlobDownload::Again() {
  restart_ = false;
  location_.clear();
  RETURN_IF_ERROR(partial_->Restart(without_ranges_ ? bytes() : settings_.limits.piece_bytes));
  ResetCalls();
  return absl::OkStatus();
}

absl::StatusOr<bool> BlobDownload::Advance() {
  if (state_ != State::kOpen) return false;
  if (restart_) {
    if (running_ > 0) return false;
    if (++restarts_ > settings_.limits.attempts) {
      return absl::UnavailableError(absl::StrCat(
          "cannot get ", source_.name, " from ", PublicUrl(location_), ": its answers ended early ",
          restarts_ - 1, " times, and it knows no ranges, by which a download would go on"));
    }
    RETURN_IF_ERROR(Again());
    return false;
  }
  ASSIGN_OR_RETURN(const int64_t digested, partial_->Digest(kDigestAtOnce));
  if (!partial_->whole() || !partial_->digested() || running_ > 0) return digested > 0;
  const std::string digest = partial_->Hex();
  if (source_.digest.empty() || digest == source_.digest) {
    RETURN_IF_ERROR(partial_->Commit(source_.content));
    RETURN_IF_ERROR(Finish(digest));
    return false;
  }
  if (std::exchange(damaged_before_, true)) {
    (void)partial_->Restart(settings_.limits.piece_bytes);
    return absl::DataLossError(absl::StrCat(
        source_.name, " came twice with the hash ", digest, ", the Hub says ", source_.digest,
        ": the server or a proxy before it changes files; try again later or another network"));
  }
  RETURN_IF_ERROR(Again());
  return false;
}

absl::Status BlobDownload::Finish(const std::string& digest) {
  RETURN_IF_ERROR(source_.finish(digest));
  partial_.reset();
  lock_.reset();
  state_ = State::kDone;
  return absl::OkStatus();
}

}  // namespace coxswain::hub
