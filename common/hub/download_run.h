// The downloads of several files at a time, over a bounded number of connections.
#ifndef COXSWAIN_COMMON_HUB_DOWNLOAD_RUN_H_
#define COXSWAIN_COMMON_HUB_DOWNLOAD_RUN_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/hub/api/http_calls.h"
#include "common/hub/api/retries.h"
#include "common/hub/blob_download.h"
#include "common/hub/download_options.h"

namespace coxswain::hub {

// What all files of a download share.
struct DownloadPlace {
  const Settings& settings;
  Reach reach = Reach::kAnywhere;
  std::string name;    // for messages: "model org/name"
  std::string folder;  // where the contents go
};

// One thread moves, writes and digests all bytes. Run once.
class DownloadRun {
 public:
  // Downloads `missing`. `there` is how much of all that is wanted is there: files and their bytes.
  // The arguments outlive the run.
  DownloadRun(const DownloadPlace& place, const DownloadOptions& options, const Progress& there,
              std::vector<BlobSource> missing);

  absl::Status Run();
  int64_t fetched_bytes() const { return fetched_; }

 private:
  using Time = BlobDownload::Time;

  absl::Status StartPieces();
  int OpenBlobs() const;
  void StartPiece(BlobDownload* blob, size_t index);
  absl::Status Move();
  void ForgetDone();
  absl::Status Explained(const absl::Status& status) const;
  int64_t DoneBytes() const;
  void Report(bool last);

  const DownloadPlace& place_;
  const DownloadOptions& options_;
  Progress progress_;
  int64_t there_ = 0;  // bytes of what was not missing, and of blobs that are done
  std::vector<std::unique_ptr<BlobDownload>> idle_;    // in reverse order
  std::vector<std::unique_ptr<BlobDownload>> active_;  // begun and not done
  Time look_elsewhere_ = {};                           // when those of other processes are due
  int64_t fetched_ = 0;
  RateMeter rate_;
  Time reported_ = {};
  absl::Status failed_;  // of a call
  bool more_to_digest_ = false;
  std::unique_ptr<HttpCalls> calls_;  // ends before what its callbacks use
};

}  // namespace coxswain::hub

#endif  // COXSWAIN_COMMON_HUB_DOWNLOAD_RUN_H_
