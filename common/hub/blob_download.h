// One file on its way into a cache.
#ifndef COXSWAIN_COMMON_HUB_BLOB_DOWNLOAD_H_
#define COXSWAIN_COMMON_HUB_BLOB_DOWNLOAD_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/hub/api/http_calls.h"
#include "common/hub/api/hub_settings.h"
#include "common/hub/api/retries.h"
#include "common/hub/cache/file_lock.h"
#include "common/hub/cache/partial_blob.h"

namespace coxswain::hub {

// A content that is wanted, and where it goes.
struct BlobSource {
  std::string name;     // for messages: "config.json of model org/name"
  std::string version;  // for messages: where it has `bytes`
  std::string url;
  int64_t bytes = 0;
  std::string digest;                  // as BlobDigest takes it; empty: nobody told one
  std::string lock, partial, content;  // paths
  // Whether an answer is of this content, as far as range and size do not tell. May be empty.
  std::function<absl::Status(const HttpHead& head)> check_head = {};
  // What a call means that is not tried again.
  std::function<absl::Status(const HttpEnd& end)> failure = {};
  // Once the content is there. `digest`: that it has; empty: another process brought it.
  std::function<absl::Status(const std::string& digest)> finish = {};
};

// First Begin until it is not kElsewhere; then every piece that NextPiece names is asked for by a
// call of CallOf, and Advance digests; then it is kDone.
class BlobDownload {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class State {
    kIdle,       // not begun
    kElsewhere,  // another process downloads it, or this one under another path
    kOpen,       // this one does
    kDone,       // there
  };

  // `settings` outlive it.
  BlobDownload(const Settings& settings, BlobSource source);

  State state() const { return state_; }
  int64_t bytes() const { return source_.bytes; }
  int64_t done() const;  // of them, that are there

  // Takes the lock. Ends at once with a content that is there, which whoever had the lock before
  // may have put there; else opens what an earlier download left.
  absl::Status Begin();

  // A piece whose time has come and that nobody asks for.
  std::optional<size_t> NextPiece(Time now) const;
  // The call for it. Without on_end, which is for Ended.
  HttpCall CallOf(size_t index);
  // What came of the call. An error is of the whole download.
  absl::Status Ended(size_t index, const HttpEnd& end, Time now);

  // Digests some more of what came; true: there may be more to digest at once. Ends the download of
  // a content whose digest is right, and begins one anew whose digest is wrong, once.
  // DataLoss names file and both hashes.
  absl::StatusOr<bool> Advance();

 private:
  struct PieceCall {
    explicit PieceCall(const Limits& limits) : retries(limits) {}
    bool running = false;
    bool by_location = false;  // it went to location_ at once
    Retries retries;
    Time due = {};
  };

  absl::Status OnHead(int64_t begin, int64_t end, const HttpHead& head);
  absl::Status OnBytes(size_t index, std::string_view bytes);
  absl::Status Again();                            // from the beginning
  absl::Status Finish(const std::string& digest);  // to kDone
  void ResetCalls();
  bool AsksForRange(size_t index) const;

  const Settings& settings_;
  const BlobSource source_;
  State state_ = State::kIdle;
  std::optional<FileLock> lock_;
  std::unique_ptr<PartialBlob> partial_;
  std::vector<PieceCall> calls_;  // as partial_->pieces()
  int running_ = 0;
  std::string location_;  // behind the redirects of the file's URL; empty: not known
  int expired_ = 0;       // locations that were refused
  bool without_ranges_ = false;
  bool restart_ = false;  // as soon as no call runs
  int restarts_ = 0;
  bool damaged_before_ = false;
};

}  // namespace coxswain::hub

#endif  // COXSWAIN_COMMON_HUB_BLOB_DOWNLOAD_H_
