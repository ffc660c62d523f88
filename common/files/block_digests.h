// Digests of a file block by block: several threads compute them, and who reads a part of the file
// checks that part alone. They find damage, not malice: whoever can write the file can write them.
#ifndef COXSWAIN_COMMON_FILES_BLOCK_DIGESTS_H_
#define COXSWAIN_COMMON_FILES_BLOCK_DIGESTS_H_

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace coxswain {

inline constexpr int64_t kDigestBlockBytes = int64_t{4} << 20;
inline constexpr int64_t kBlockDigestBytes = 16;

// XXH3-128 in canonical form, kBlockDigestBytes raw bytes.
std::string DigestOfBlock(std::string_view block);

// Of a file that is cut into blocks of kDigestBlockBytes from its first byte on; the last one may
// be shorter.
struct BlockDigests {
  int64_t bytes = 0;    // of the file
  std::string digests;  // kBlockDigestBytes raw bytes of each block, in order

  int64_t blocks() const { return (bytes + kDigestBlockBytes - 1) / kDigestBlockBytes; }
  // There is one for each block.
  bool complete() const {
    return static_cast<int64_t>(digests.size()) == blocks() * kBlockDigestBytes;
  }
  // SHA-256 (lower-case hex) of sizes and digests: equal for files of equal blocks.
  std::string Root() const;
  bool operator==(const BlockDigests&) const = default;
};

// Bytes of block `i` of a file of `bytes` bytes.
int64_t BlockBytes(int64_t bytes, int64_t i);

// DataLoss unless `block` is block `i` of the file at `path`; names the block, its bytes and both
// digests. `expected` is complete and has a block i.
absl::Status CheckBlock(const std::string& path, const BlockDigests& expected, int64_t i,
                        std::string_view block);

struct BlockCheckOptions {
  int threads = 1;
  int64_t most_blocks = std::numeric_limits<int64_t>::max();  // the first ones only
};
// Reads the file and compares it. DataLoss: as CheckBlock, or another size (both are named). Errors
// of the file system as ErrnoStatus.
absl::Status CheckBlocksOfFile(const std::string& path, const BlockDigests& expected,
                               const BlockCheckOptions& options);

// Of the bytes of a whole file that are in memory.
BlockDigests DigestsOf(std::string_view content);

// Reads the file on `threads` threads. Aborted: it shrank meanwhile. Errors of the file system as
// ErrnoStatus.
absl::StatusOr<BlockDigests> DigestsOfFile(const std::string& path, int threads);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FILES_BLOCK_DIGESTS_H_
