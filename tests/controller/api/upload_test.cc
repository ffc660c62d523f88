#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "common/files/hash.h"
#include "controller/api/upload_receiver.h"
#include "controller/uploads/upload_store.h"
#include "tests/controller/api/operations_fixture.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::api {
namespace {

using absl::StatusCode;

const access::Principal kAnn{.role = access::Role::kUser, .name = "ann"};

class UploadCallTest : public OperationsTest {
 protected:
  UploadCallTest() {
    auto store = uploads::UploadStore::Open({.root = uploads::UploadsFolder(folder_.path()),
                                             .most_bytes_per_owner = 4 << 20,
                                             .kept_free_bytes = 0});
    EXPECT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    context_.uploads = store_.get();
  }

  static v1::BeginUploadRequest FileOf(const std::string& content,
                                       const std::string& name = "train.jsonl") {
    v1::BeginUploadRequest file;
    file.set_name(name);
    file.set_sha256(Sha256(content));
    file.set_bytes(static_cast<int64_t>(content.size()));
    return file;
  }
  static v1::UploadRequest Piece(int64_t offset, const std::string& data) {
    v1::UploadRequest message;
    message.set_offset(offset);
    message.set_data(data);
    return message;
  }
  static v1::UploadRequest First(const v1::BeginUploadRequest& file, int64_t offset,
                                 const std::string& data) {
    v1::UploadRequest message = Piece(offset, data);
    *message.mutable_file() = file;
    return message;
  }
  std::shared_ptr<UploadReceiver> Receive() {
    result_.reset();
    return std::make_shared<UploadReceiver>(
        &context_, kAnn,
        [this](absl::StatusOr<v1::UploadResponse> result) { result_ = std::move(result); });
  }
  // Until it asks for the next message or replies.
  void Take(const std::shared_ptr<UploadReceiver>& receiver, const v1::UploadRequest& message) {
    bool more = false;
    receiver->Take(std::make_shared<const v1::UploadRequest>(message), [&] { more = true; });
    ASSERT_TRUE(sim_.RunUntil([&] { return more || result_.has_value(); }, 10'000));
  }
  StatusCode ResultOf(const std::shared_ptr<UploadReceiver>& receiver) {
    receiver->End();
    sim_.RunUntil([&] { return result_.has_value(); }, 10'000);
    return result_ ? result_->status().code() : StatusCode::kUnknown;
  }
  // What a first message of its own comes to.
  StatusCode Refusal(const v1::UploadRequest& message) {
    const auto receiver = Receive();
    Take(receiver, message);
    return result_ ? result_->status().code() : StatusCode::kOk;
  }

  const support::ScratchFolder folder_;
  std::unique_ptr<uploads::UploadStore> store_;
  std::optional<absl::StatusOr<v1::UploadResponse>> result_;
};

// Invariant api-11.
TEST_F(UploadCallTest, AFileComesInPiecesAndGoesOnWhereItStopped) {
  const v1::BeginUploadRequest file = FileOf("some records");
  const auto begun = Call(BeginUpload, file, kAnn);
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_EQ(begun->offset(), 0);
  EXPECT_EQ(begun->path(), "upload://" + ToHex(file.sha256()) + "/train.jsonl");

  const auto broken = Receive();
  Take(broken, First(file, 0, "some"));
  Take(broken, Piece(4, " rec"));
  broken->Drop();
  EXPECT_FALSE(result_.has_value());
  EXPECT_EQ(Call(BeginUpload, file, kAnn)->offset(), 8);

  const auto rest = Receive();
  Take(rest, First(file, 8, "ords"));
  ASSERT_EQ(ResultOf(rest), StatusCode::kOk) << result_->status();
  EXPECT_EQ((*result_)->path(), begun->path());
  EXPECT_EQ(Call(BeginUpload, file, kAnn)->offset(), file.bytes());
  EXPECT_EQ(Call(BeginUpload, file)->offset(), 0) << "operators have files of their own";
  EXPECT_EQ(support::ReadFile(*uploads::ResolveUpload(folder_.path(), "ann", begun->path())),
            "some records");
}

// Invariant api-11.
TEST_F(UploadCallTest, HostileMessagesAreRefusedAndHarmNothing) {
  const v1::BeginUploadRequest file = FileOf("some records");
  Take(Receive(), First(file, 0, "some"));
  v1::BeginUploadRequest wrong = file;
  wrong.set_name("../train.jsonl");
  EXPECT_EQ(Refusal(First(wrong, 0, "x")), StatusCode::kInvalidArgument);
  wrong = file;
  wrong.set_sha256("short");
  EXPECT_EQ(Refusal(First(wrong, 0, "x")), StatusCode::kInvalidArgument);
  for (const int64_t bytes : {int64_t{-1}, int64_t{0}, int64_t{1} << 62}) {
    wrong = file;
    wrong.set_bytes(bytes);
    EXPECT_EQ(Refusal(First(wrong, 0, "x")), StatusCode::kInvalidArgument) << bytes;
    EXPECT_EQ(Call(BeginUpload, wrong, kAnn).status().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(Refusal(Piece(0, "no file")), StatusCode::kInvalidArgument);
  EXPECT_EQ(Refusal(First(file, -1, "x")), StatusCode::kInvalidArgument);
  EXPECT_EQ(Refusal(First(file, 5, "x")), StatusCode::kOutOfRange) << "4 bytes are there";
  EXPECT_EQ(Refusal(First(file, 4, std::string(9, 'x'))), StatusCode::kOutOfRange);
  EXPECT_EQ(Refusal(First(file, 4, std::string((1 << 20) + 1, 'x'))), StatusCode::kInvalidArgument);
  EXPECT_EQ(Refusal(First(FileOf(std::string(5 << 20, 'x')), 0, "x")),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(ResultOf(Receive()), StatusCode::kInvalidArgument) << "no message";

  const auto twice = Receive();
  Take(twice, First(file, 4, " "));
  Take(twice, First(file, 5, "r"));
  EXPECT_EQ(result_->status().code(), StatusCode::kInvalidArgument);
  const auto early = Receive();
  Take(early, First(file, 5, "re"));
  EXPECT_EQ(ResultOf(early), StatusCode::kInvalidArgument);
  const auto rest = Receive();
  Take(rest, First(file, 7, "cords"));
  EXPECT_EQ(ResultOf(rest), StatusCode::kOk) << "what was right is kept";
}

TEST_F(UploadCallTest, AnotherContentIsLost) {
  const v1::BeginUploadRequest file = FileOf("some records");
  const auto receiver = Receive();
  Take(receiver, First(file, 0, "same records"));
  EXPECT_EQ(ResultOf(receiver), StatusCode::kDataLoss);
  EXPECT_EQ(Call(BeginUpload, file, kAnn)->offset(), 0);
}

TEST_F(UploadCallTest, ASecondCallWaitsForTheFirst) {
  const v1::BeginUploadRequest file = FileOf("some records");
  const auto first = Receive();
  Take(first, First(file, 0, "some"));
  EXPECT_EQ(Refusal(First(file, 4, " records")), StatusCode::kAborted);
  result_.reset();
  Take(first, Piece(4, " records"));
  EXPECT_EQ(ResultOf(first), StatusCode::kOk);
  EXPECT_EQ(Refusal(First(file, 12, "")), StatusCode::kAlreadyExists);
}

TEST_F(UploadCallTest, AClientThatSaysNothingKeepsNoFileFromOthers) {
  const v1::BeginUploadRequest file = FileOf("some records");
  const auto silent = Receive();
  Take(silent, First(file, 0, "some"));
  sim_.RunFor(50'000);
  Take(silent, Piece(4, " "));
  sim_.RunFor(50'000);
  EXPECT_FALSE(result_.has_value()) << "it said something";
  sim_.RunFor(80'000);
  ASSERT_TRUE(result_.has_value());
  EXPECT_EQ(result_->status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Refusal(First(file, 5, "records")), StatusCode::kOk);
}

}  // namespace
}  // namespace coxswain::api
