// Invariant driver-7, on the ranks' side: what is read was written.
#include "common/checkpoint/checked_tensors.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "common/checkpoint/manifest_files.h"
#include "common/files/durable_file.h"
#include "common/files/read_file.h"
#include "common/files/safetensors/safetensors_blocks.h"
#include "tests/support/scratch_folder.h"

namespace coxswain {
namespace {

constexpr int64_t kLarge = 3 * kDigestBlockBytes;

class CheckedTensorsTest : public testing::Test {
 protected:
  CheckedTensorsTest() {
    const std::string large(static_cast<size_t>(kLarge), 'l'), small(100, 's');
    std::vector<ManifestFile> files;
    for (const std::string name : {"rank-0.safetensors", "rank-1.safetensors"}) {
      const std::string of = name.substr(0, 6);
      const auto written = WriteSafetensorsBlocks(
          Path(name),
          {{.form = {of + ".large", ElementType::kU8, {kLarge}}, .data = large.data()},
           {.form = {of + ".small", ElementType::kU8, {100}}, .data = small.data()}},
          {}, {});
      EXPECT_TRUE(written.ok()) << written.status();
      files.push_back(FileInBlocks(name, *written));
    }
    const nlohmann::json manifest = {{"format", kManifestFormat},
                                     {"files", ManifestFilesJson(files)}};
    EXPECT_TRUE(WriteFileDurably(Path(kManifestName), manifest.dump()).ok());
  }

  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }
  void Flip(const std::string& name, int64_t at) const {
    std::fstream file(Path(name), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const char byte = static_cast<char>(file.get() ^ 0x10);
    file.seekp(at);
    file.put(byte);
  }
  // Of reading all of a tensor.
  absl::Status Read(const std::string& tensor) const {
    const auto checked = CheckedTensors::Open(folder_.path());
    if (!checked.ok()) return checked.status();
    const PiecedTensor* found = checked->tensors().Find(tensor);
    return found == nullptr ? absl::NotFoundError(tensor)
                            : checked->Check(*found, 0, found->elements());
  }
  void ExpectDamaged(const absl::Status& status, const std::string& block) const {
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_NE(status.message().find(Path("rank-0.safetensors")), absl::string_view::npos) << status;
    EXPECT_NE(status.message().find(block), absl::string_view::npos) << status;
  }

  const support::ScratchFolder folder_;
};

TEST_F(CheckedTensorsTest, WholeFilesAreWhole) {
  for (const char* tensor : {"rank-0.large", "rank-0.small", "rank-1.large", "rank-1.small"}) {
    EXPECT_TRUE(Read(tensor).ok()) << Read(tensor);
  }
}

TEST_F(CheckedTensorsTest, ADamagedHeaderIsNotParsed) {
  for (const int64_t at : {0, 7, 12}) {
    Flip("rank-0.safetensors", at);
    ExpectDamaged(Read("rank-1.small"), "block 0 of 4");
    Flip("rank-0.safetensors", at);
  }
}

TEST_F(CheckedTensorsTest, ADamagedBlockIsFoundByWhoReadsIt) {
  Flip("rank-0.safetensors", 2 * kDigestBlockBytes);
  ExpectDamaged(Read("rank-0.large"), "block 2 of 4");
  EXPECT_TRUE(Read("rank-0.small").ok());
  EXPECT_TRUE(Read("rank-1.large").ok());
}

TEST_F(CheckedTensorsTest, OnlyTheBlocksOfTheElementsAreChecked) {
  Flip("rank-0.safetensors", 2 * kDigestBlockBytes);
  const auto checked = CheckedTensors::Open(folder_.path());
  ASSERT_TRUE(checked.ok());
  const PiecedTensor* large = checked->tensors().Find("rank-0.large");
  EXPECT_TRUE(checked->Check(*large, 0, kDigestBlockBytes).ok());
  EXPECT_FALSE(checked->Check(*large, kDigestBlockBytes, kDigestBlockBytes).ok());
  EXPECT_TRUE(checked->Check(*large, kLarge, 0).ok());
}

TEST_F(CheckedTensorsTest, ADamagedLastBlockIsFound) {
  const auto bytes = static_cast<int64_t>(ReadFile(Path("rank-0.safetensors"))->size());
  Flip("rank-0.safetensors", bytes - 1);
  ExpectDamaged(Read("rank-0.small"), "block 3 of 4");
}

TEST_F(CheckedTensorsTest, ATruncatedFileIsNotMapped) {
  const std::string content = ReadFile(Path("rank-0.safetensors")).value();
  ASSERT_TRUE(WriteFileDurably(Path("rank-0.safetensors"), content.substr(0, 1'000'000)).ok());
  ExpectDamaged(Read("rank-1.small"), "has 1000000 bytes");
}

TEST_F(CheckedTensorsTest, AShardThatNoManifestNamesIsRefused) {
  const std::string content = ReadFile(Path("rank-0.safetensors")).value();
  ASSERT_TRUE(WriteFileDurably(Path("rank-2.safetensors"), content).ok());
  EXPECT_FALSE(Read("rank-1.small").ok());
  std::remove(Path(kManifestName).c_str());
  EXPECT_EQ(Read("rank-1.small").code(), absl::StatusCode::kNotFound);
}

// The controller has hashed them.
TEST_F(CheckedTensorsTest, FilesWithoutBlocksAreTakenAsTheyAre) {
  std::vector<ManifestFile> files;
  for (const std::string name : {"rank-0.safetensors", "rank-1.safetensors"}) {
    files.push_back(FileAsWhole(name, ReadFile(Path(name)).value()));
  }
  const nlohmann::json manifest = {{"format", "coxswain-checkpoint/1"},
                                   {"files", ManifestFilesJson(files)}};
  ASSERT_TRUE(WriteFileDurably(Path(kManifestName), manifest.dump()).ok());
  EXPECT_TRUE(Read("rank-0.large").ok());
}

}  // namespace
}  // namespace coxswain
