#include "common/files/block_digests.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/hash.h"
#include "common/parallel_for.h"
#include "common/posix_status.h"
#include "common/status_macros.h"

namespace coxswain {
namespace {

static_assert(sizeof(XXH128_canonical_t) == kBlockDigestBytes);

// An open file that closes itself.
class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// Fewer bytes than asked for: the file ends there.
absl::StatusOr<int64_t> ReadFully(int fd, const std::string& path, int64_t offset, int64_t count,
                                  char* out) {
  int64_t done = 0;
  while (done < count) {
    const ssize_t got = ::pread(fd, out + done, static_cast<size_t>(count - done), offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "read", path);
    if (got == 0) break;
    done += got;
  }
  return done;
}

absl::StatusOr<int64_t> SizeOf(const OpenFile& file, const std::string& path) {
  if (file.fd() < 0) return ErrnoStatus(errno, "open", path);
  struct stat info {};
  if (::fstat(file.fd(), &info) != 0) return ErrnoStatus(errno, "inspect", path);
  return info.st_size;
}

// `work` gets each of the first `blocks` blocks of a file of `bytes` bytes, on `threads` threads.
absl::Status ForEachBlock(
    const OpenFile& file, const std::string& path, int64_t bytes, int64_t blocks, int threads,
    const std::function<absl::Status(int64_t i, std::string_view block)>& work) {
  return ParallelFor(blocks, threads, [&](int64_t i) -> absl::Status {
    const int64_t count = BlockBytes(bytes, i);
    const auto buffer = std::make_unique_for_overwrite<char[]>(static_cast<size_t>(count));
    ASSIGN_OR_RETURN(const int64_t got,
                     ReadFully(file.fd(), path, i * kDigestBlockBytes, count, buffer.get()));
    return work(i, {buffer.get(), static_cast<size_t>(got)});
  });
}

}  // namespace

std::string DigestOfBlock(std::string_view block) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(block.data(), block.size()));
  return std::string(reinterpret_cast<const char*>(canonical.digest), sizeof(canonical.digest));
}

std::string BlockDigests::Root() const {
  return ToHex(Sha256(absl::StrCat("xxh3-128 ", bytes, " ", kDigestBlockBytes, " ", digests)));
}

int64_t BlockBytes(int64_t bytes, int64_t i) {
  return std::min(kDigestBlockBytes, bytes - i * kDigestBlockBytes);
}

absl::Status CheckBlock(const std::string& path, const BlockDigests& expected, int64_t i,
                        std::string_view block) {
  const std::string_view wanted = std::string_view(expected.digests)
                                      .substr(static_cast<size_t>(i * kBlockDigestBytes),
                                              static_cast<size_t>(kBlockDigestBytes));
  const std::string found = DigestOfBlock(block);
  if (found == wanted) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      path, ": block ", i, " of ", expected.blocks(), " (bytes ", i * kDigestBlockBytes, " to ",
      i * kDigestBlockBytes + static_cast<int64_t>(block.size()), ") has XXH3-128 ", ToHex(found),
      ", its manifest says ", ToHex(wanted), ": it was damaged after it was written"));
}

absl::Status CheckBlocksOfFile(const std::string& path, const BlockDigests& expected,
                               const BlockCheckOptions& options) {
  const OpenFile file(path);
  ASSIGN_OR_RETURN(const int64_t bytes, SizeOf(file, path));
  if (bytes != expected.bytes) {
    return absl::DataLossError(
        absl::StrCat(path, ": has ", bytes, " bytes, its manifest says ", expected.bytes));
  }
  const int64_t blocks = std::min(expected.blocks(), options.most_blocks);
  return ForEachBlock(
      file, path, bytes, blocks, options.threads,
      [&](int64_t i, std::string_view block) { return CheckBlock(path, expected, i, block); });
}

absl::StatusOr<BlockDigests> DigestsOfFile(const std::string& path, int threads) {
  const OpenFile file(path);
  ASSIGN_OR_RETURN(const int64_t bytes, SizeOf(file, path));
  BlockDigests out{.bytes = bytes, .digests = {}};
  out.digests.resize(static_cast<size_t>(out.blocks() * kBlockDigestBytes));
  RETURN_IF_ERROR(ForEachBlock(
      file, path, bytes, out.blocks(), threads,
      [&](int64_t i, std::string_view block) -> absl::Status {
        if (static_cast<int64_t>(block.size()) != BlockBytes(bytes, i)) {
          return absl::AbortedError(absl::StrCat(path, ": shrank while it was read"));
        }
        const std::string digest = DigestOfBlock(block);
        std::copy(digest.begin(), digest.end(), out.digests.begin() + i * kBlockDigestBytes);
        return absl::OkStatus();
      }));
  return out;
}

BlockDigests DigestsOf(std::string_view content) {
  BlockDigests out{.bytes = static_cast<int64_t>(content.size()), .digests = {}};
  for (int64_t i = 0; i < out.blocks(); ++i) {
    out.digests += DigestOfBlock(content.substr(static_cast<size_t>(i * kDigestBlockBytes),
                                                static_cast<size_t>(BlockBytes(out.bytes, i))));
  }
  return out;
}

}  // namespace coxswain
