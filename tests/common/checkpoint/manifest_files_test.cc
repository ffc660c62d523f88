#include "common/checkpoint/manifest_files.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/files/durable_file.h"
#include "tests/support/scratch_folder.h"

namespace coxswain {
namespace {

using nlohmann::json;

json Manifest(const std::vector<ManifestFile>& files) {
  return {{"format", kManifestFormat}, {"files", ManifestFilesJson(files)}};
}

TEST(ManifestFilesTest, FilesComeBackAsTheyWereWritten) {
  const support::ScratchFolder folder;
  const std::vector<ManifestFile> files = {
      FileInBlocks("rank-0.safetensors", DigestsOf(std::string(5'000'000, 'x'))),
      FileAsWhole("trainer_state.json", "{}")};
  ASSERT_TRUE(WriteFileDurably(folder.path() + "/manifest.json", Manifest(files).dump()).ok());
  const auto read = ReadManifestFiles(folder.path());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, files);
  EXPECT_EQ(read->front().blocks().blocks(), 2);
  EXPECT_EQ(ReadManifestFiles(folder.path() + "/none").status().code(),
            absl::StatusCode::kNotFound);
}

TEST(ManifestFilesTest, AManifestOfAReleaseBeforeBlocksIsRead) {
  const auto manifest = ParseManifestJson(
      R"({"format":"coxswain-checkpoint/1","files":[{"name":"a","bytes":3,"sha256":"00ff"}]})",
      "m");
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  const auto files = ManifestFilesOf(*manifest, "m");
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(*files, (std::vector<ManifestFile>{{.name = "a", .bytes = 3, .sha256 = "00ff"}}));
  EXPECT_FALSE(files->front().in_blocks());
}

TEST(ManifestFilesTest, DigestsThatAreNotThoseOfTheRootAreDataLoss) {
  const json good = Manifest({FileInBlocks("a", DigestsOf(std::string(5'000'000, 'x')))});
  const auto refused = [&](const std::function<void(json&)>& damage) {
    json manifest = good;
    damage(manifest["files"][0]);
    const absl::Status status = ManifestFilesOf(manifest, "/c/manifest.json").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << manifest.dump();
    EXPECT_NE(status.message().find("/c/manifest.json"), absl::string_view::npos) << status;
  };
  const std::string hex = good["files"][0]["blocks"];
  refused([&](json& file) { file["blocks"] = (hex[0] == '0' ? "1" : "0") + hex.substr(1); });
  refused([&](json& file) { file["blocks"] = hex.substr(32); });
  refused([&](json& file) { file["blocks"] = ""; });
  refused([](json& file) { file["bytes"] = 4'000'000; });
  refused([](json& file) { file["root"] = "00"; });
  refused([](json& file) { file.erase("root"); });
  refused([](json& file) { file["name"] = "../a"; });
  refused([](json& file) { file["name"] = "a/.."; });
  refused([](json& file) { file["name"] = "/a"; });
  refused([](json& file) { file["name"] = "a/b/c"; });
}

}  // namespace
}  // namespace coxswain
