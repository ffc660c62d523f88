#include "common/files/block_digests.h"

#include <xxhash.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/files/hash.h"
#include "common/files/regular_file.h"
#include "common/parallel_for.h"
#include "common/status_macros.h"

namespace coxswain {
namespace {

static_assert(sizeof(XXH128_canonical_t) == kBlockDigestBytes);

// `work` gets each of the first `blocks` blocks of `file`, on `threads` threads; less than a whole
// block where the file ends early.
absl::Status ForEachBlock(
    const RegularFile& file, int64_t blocks, int threads,
    const std::function<absl::Status(int64_t i, std::string_view block)>& work) {
  return ParallelFor(blocks, threads, [&](int64_t i) -> absl::Status {
    const int64_t count = BlockBytes(file.bytes(), i);
    const auto buffer = std::make_unique_for_overwrite<char[]>(static_cast<size_t>(count));
    ASSIGN_OR_RETURN(const int64_t got, file.ReadAt(i * kDigestBlockBytes, count, buffer.get()));
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
  ASSIGN_OR_RETURN(const RegularFile file, RegularFile::Open(path));
  if (file.bytes() != expected.bytes) {
    return absl::DataLossError(
        absl::StrCat(path, ": has ", file.bytes(), " bytes, its manifest says ", expected.bytes));
  }
  const int64_t blocks = std::min(expected.blocks(), options.most_blocks);
  return ForEachBlock(file, blocks, options.threads, [&](int64_t i, std::string_view block) {
    return CheckBlock(path, expected, i, block);
  });
}

absl::StatusOr<BlockDigests> DigestsOfFile(const std::string& path, int threads) {
  ASSIGN_OR_RETURN(const RegularFile file, RegularFile::Open(path));
  BlockDigests out{.bytes = file.bytes(), .digests = {}};
  out.digests.resize(static_cast<size_t>(out.blocks() * kBlockDigestBytes));
  RETURN_IF_ERROR(ForEachBlock(
      file, out.blocks(), threads, [&](int64_t i, std::string_view block) -> absl::Status {
        if (static_cast<int64_t>(block.size()) != BlockBytes(file.bytes(), i)) {
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
