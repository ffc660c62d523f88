#include "controller/uploads/upload_store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "common/files/hash.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::uploads {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;

class UploadStoreTest : public testing::Test {
 protected:
  UploadStoreTest() { Start(); }
  // As a controller that is started again.
  void Start() {
    store_.reset();
    auto store = UploadStore::Open(options_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  static Upload Of(const std::string& content, const std::string& name = "train.jsonl",
                   const std::string& owner = "ann") {
    return {.owner = owner,
            .name = name,
            .sha256 = ToHex(Sha256(content)),
            .bytes = static_cast<int64_t>(content.size())};
  }
  // From what is there on, in one piece.
  absl::Status Bring(const Upload& upload, const std::string& content) {
    const auto there = store_->BytesThere(upload);
    if (!there.ok()) return there.status();
    auto writer = store_->Begin(upload, *there);
    if (!writer.ok()) return writer.status();
    const auto rest = std::string_view(content).substr(static_cast<size_t>(*there));
    if (absl::Status put = (*writer)->Append(*there, rest); !put.ok()) return put;
    for (absl::StatusOr<bool> more = true; *more;) {
      more = (*writer)->Digest(3);
      if (!more.ok()) return more.status();
    }
    return (*writer)->Commit();
  }
  void BringPart(const Upload& upload, const std::string& part) {
    auto writer = store_->Begin(upload, *store_->BytesThere(upload));
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE((*writer)->Append((*writer)->there(), part).ok());
  }
  absl::StatusOr<std::string> Resolve(const Upload& upload, const std::string& owner) const {
    return ResolveUpload(folder_.path(), owner, UploadText(upload));
  }

  const support::ScratchFolder folder_;
  UploadStore::Options options_{
      .root = UploadsFolder(folder_.path()), .most_bytes_per_owner = 1000, .kept_free_bytes = 0};
  std::unique_ptr<UploadStore> store_;
};

// Invariant uploads-1.
TEST_F(UploadStoreTest, AFileIsThereOnceItHasItsDigest) {
  const Upload upload = Of("some records");
  EXPECT_EQ(*store_->BytesThere(upload), 0);
  EXPECT_EQ(Resolve(upload, "ann").status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(Bring(upload, "some records").ok());
  EXPECT_EQ(*store_->BytesThere(upload), upload.bytes);
  const auto path = Resolve(upload, "ann");
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(support::ReadFile(*path), "some records");
  EXPECT_EQ(*path, UploadsFolder(folder_.path()) + "/user-ann/" + upload.sha256 + "/train.jsonl");
  EXPECT_EQ(store_->Begin(upload, upload.bytes).status().code(), StatusCode::kAlreadyExists);
}

// Invariant uploads-1.
TEST_F(UploadStoreTest, AnotherContentIsRefusedAndForgotten) {
  const Upload upload = Of("some records");
  const absl::Status refused = Bring(upload, "same records");
  EXPECT_EQ(refused.code(), StatusCode::kDataLoss);
  EXPECT_NE(refused.message().find(upload.sha256), std::string::npos) << refused;
  EXPECT_EQ(*store_->BytesThere(upload), 0);
  EXPECT_FALSE(Resolve(upload, "ann").ok());
  EXPECT_TRUE(Bring(upload, "some records").ok());
}

// Invariant uploads-4.
TEST_F(UploadStoreTest, WhatCameStaysOverARestart) {
  const Upload upload = Of("some records");
  BringPart(upload, "some ");
  Start();
  EXPECT_EQ(*store_->BytesThere(upload), 5);
  EXPECT_EQ(store_->Begin(upload, 4).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(store_->Begin(upload, 6).status().code(), StatusCode::kOutOfRange);
  ASSERT_TRUE(Bring(upload, "some records").ok());
  EXPECT_EQ(support::ReadFile(*Resolve(upload, "ann")), "some records");
}

// It would be taken for one that is complete.
TEST_F(UploadStoreTest, AFileThatWasNotVerifiedMissesItsLastByte) {
  const Upload upload = Of("some records");
  BringPart(upload, "some records");
  EXPECT_EQ(*store_->BytesThere(upload), upload.bytes - 1);
  ASSERT_TRUE(Bring(upload, "some records").ok());
}

TEST_F(UploadStoreTest, WhatIsLeftOfAnotherSizeIsNotGoneOnWith) {
  Upload liar = Of("some records");
  liar.bytes = 100;
  BringPart(liar, std::string(50, 'x'));
  ASSERT_TRUE(Bring(Of("some records"), "some records").ok());
  EXPECT_EQ(store_->BytesThere(liar).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(UploadStoreTest, ThePiecesOfAFileFitIt) {
  const Upload upload = Of("some records");
  auto writer = store_->Begin(upload, 0);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->Append(0, "some").ok());
  for (const int64_t offset : {int64_t{0}, int64_t{3}, int64_t{5}, int64_t{1} << 50}) {
    EXPECT_EQ((*writer)->Append(offset, "x").code(), StatusCode::kOutOfRange) << offset;
  }
  EXPECT_EQ((*writer)->Append(4, "more than it has").code(), StatusCode::kOutOfRange);
  EXPECT_EQ((*writer)->there(), 4);
}

TEST_F(UploadStoreTest, OneCallAtATimeBringsAFile) {
  const Upload upload = Of("some records");
  auto first = store_->Begin(upload, 0);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(store_->Begin(upload, 0).status().code(), StatusCode::kAborted);
  EXPECT_TRUE(store_->Begin(Of("some records", "train.jsonl", "bob"), 0).ok())
      << "another owner's is another file";
  first->reset();
  EXPECT_TRUE(Bring(upload, "some records").ok());
}

TEST_F(UploadStoreTest, AnOwnersFilesAreBounded) {
  ASSERT_TRUE(Bring(Of(std::string(600, 'a'), "a"), std::string(600, 'a')).ok());
  const absl::Status full = store_->BytesThere(Of(std::string(401, 'b'), "b")).status();
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  for (const char* said : {"401 B", "600 B of the 1000 B", "--upload-gib"}) {
    EXPECT_NE(full.message().find(said), std::string::npos) << full;
  }
  EXPECT_TRUE(store_->BytesThere(Of(std::string(400, 'b'), "b")).ok());
  EXPECT_TRUE(store_->BytesThere(Of(std::string(401, 'b'), "b", "bob")).ok());
  // What is on its way counts with all of its bytes.
  const auto open = store_->Begin(Of(std::string(300, 'c'), "c"), 0);
  ASSERT_TRUE(open.ok());
  EXPECT_EQ(store_->Begin(Of(std::string(101, 'd'), "d"), 0).status().code(),
            StatusCode::kResourceExhausted);
  options_.most_files_per_owner = 1;
  Start();
  EXPECT_EQ(store_->BytesThere(Of("x", "x")).status().code(), StatusCode::kResourceExhausted);
}

TEST_F(UploadStoreTest, RoomOnTheDiskIsKeptForTheStore) {
  options_.kept_free_bytes = int64_t{1} << 60;
  Start();
  const absl::Status full = store_->Begin(Of("some records"), 0).status();
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(full.message().find("needs 12 B more"), std::string::npos) << full;
}

TEST_F(UploadStoreTest, WhatNobodyGoesOnWithIsRemovedAtAStart) {
  const Upload old = Of("some records"), fresh = Of("more records");
  BringPart(old, "some");
  BringPart(fresh, "more");
  ASSERT_TRUE(Bring(Of("x", "kept"), "x").ok());
  const std::string folder = OwnerFolder(options_.root, "ann");
  const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(8 * 24);
  fs::last_write_time(folder + "/" + old.sha256 + ".incomplete", long_ago);
  fs::last_write_time(*Resolve(Of("x", "kept"), "ann"), long_ago);
  Start();
  EXPECT_EQ(*store_->BytesThere(old), 0);
  EXPECT_EQ(*store_->BytesThere(fresh), 4);
  EXPECT_TRUE(Resolve(Of("x", "kept"), "ann").ok());
}

// Invariant uploads-2.
TEST_F(UploadStoreTest, AUserHasOwnFilesAndAnOperatorAll) {
  const Upload anns = Of("of ann"), operators = Of("of operators", "o", "");
  ASSERT_TRUE(Bring(anns, "of ann").ok());
  ASSERT_TRUE(Bring(operators, "of operators").ok());
  EXPECT_TRUE(Resolve(anns, "ann").ok());
  EXPECT_EQ(Resolve(anns, "bob").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Resolve(operators, "ann").status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(Resolve(anns, "").ok());
  EXPECT_TRUE(Resolve(operators, "").ok());
  EXPECT_EQ(Resolve(operators, "operators").status().code(), StatusCode::kNotFound)
      << "a user who is named so";
}

// Invariant uploads-3.
TEST_F(UploadStoreTest, NoNameLeadsElsewhere) {
  const std::string digest(64, 'a');
  folder_.Write("secret", "x");
  for (const std::string& text :
       {std::string("upload://"), "upload://" + digest, "upload://" + digest + "/",
        "upload://" + digest + "/..", "upload://" + digest + "/../x", "upload://../" + digest,
        "upload://" + digest + "/a/b", "upload://" + std::string(64, 'A') + "/x",
        std::string("/etc/passwd"), "upload:/" + digest + "/x"}) {
    EXPECT_EQ(ResolveUpload(folder_.path(), "ann", text).status().code(),
              StatusCode::kInvalidArgument)
        << text;
  }
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string("a/b"), std::string("a\nb"),
        std::string("a\0b", 3), std::string("\xff"), std::string(256, 'n')}) {
    EXPECT_FALSE(IsUploadName(name)) << name;
  }
  EXPECT_TRUE(IsUploadName(std::string(255, 'n')));
  EXPECT_TRUE(IsUploadName("Zürich daten.jsonl"));
  const std::string folder = OwnerFolder(options_.root, "ann") + "/" + digest;
  fs::create_directories(folder);
  fs::create_symlink(folder_.path() + "/secret", folder + "/link");
  EXPECT_EQ(ResolveUpload(folder_.path(), "ann", "upload://" + digest + "/link").status().code(),
            StatusCode::kNotFound);
}

}  // namespace
}  // namespace coxswain::uploads
