// A file that is being downloaded, in pieces that come in any order.
#ifndef COXSWAIN_COMMON_HUB_CACHE_PARTIAL_BLOB_H_
#define COXSWAIN_COMMON_HUB_CACHE_PARTIAL_BLOB_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/regular_file.h"
#include "common/hub/cache/blob_digest.h"

namespace coxswain::hub {

// Lies beside its blob under a name that no client but ours opens: huggingface_hub takes the length
// of "ETAG.incomplete" for what is there, and this file has holes. Behind the content stands what
// each piece has, so that a download goes on where it was killed:
//
//   content, `bytes` long | "coxswain" | piece_bytes | done of piece 0 | done of piece 1 | ...
//
// The numbers are 8 bytes each, of this machine. Commit cuts them off. Its caller holds the lock of
// the blob. A power failure may leave numbers without their bytes: the digest finds that.
class PartialBlob {
 public:
  struct Piece {
    int64_t begin = 0;  // in the content
    int64_t bytes = 0;
    int64_t done = 0;  // from begin on

    bool whole() const { return done == bytes; }
  };

  // What an earlier download left in `path` of these `bytes`, else a new file. `etag` says which
  // digest. Errors as ErrnoStatus; they name `path`.
  static absl::StatusOr<std::unique_ptr<PartialBlob>> Open(const std::string& path,
                                                           const std::string& etag, int64_t bytes,
                                                           int64_t piece_bytes);

  const std::vector<Piece>& pieces() const { return pieces_; }
  int64_t done() const { return done_; }  // bytes of all pieces
  bool whole() const { return done_ == bytes_; }

  // Appends to piece `index`. ResourceExhausted: the disk is full; what is written counts, and more
  // may be written later. DataLoss: the piece ends before.
  absl::Status Append(size_t index, std::string_view bytes);
  // Digests up to `most` bytes more of the content that is there from its beginning on; returns how
  // many. Errors as ErrnoStatus.
  absl::StatusOr<int64_t> Digest(int64_t most);
  bool digested() const { return digested_ == bytes_; }
  // Of the whole content, once: in hexadecimal.
  std::string Hex() { return digest_.Hex(); }

  // Forgets what is there and cuts the content anew.
  absl::Status Restart(int64_t piece_bytes);
  // The content alone, synced, under the name `blob`. Not another time.
  absl::Status Commit(const std::string& blob);

 private:
  PartialBlob(std::string path, std::string etag, int64_t bytes, Descriptor file);
  void Cut(int64_t piece_bytes);
  bool ReadNumbers();
  absl::Status WriteNumbers();
  absl::Status WriteAt(int64_t offset, std::string_view bytes, int64_t* written);

  const std::string path_;
  const std::string etag_;
  const int64_t bytes_;
  const Descriptor file_;
  int64_t piece_bytes_ = 0;
  std::vector<Piece> pieces_;
  int64_t done_ = 0;
  BlobDigest digest_;
  int64_t digested_ = 0;
  std::vector<char> read_;
};

}  // namespace coxswain::hub

#endif  // COXSWAIN_COMMON_HUB_CACHE_PARTIAL_BLOB_H_
