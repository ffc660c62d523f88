#include "common/data/token_store.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include "common/data/token_store_writer.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::data {
namespace {

struct Document {
  std::vector<int32_t> ids;
  std::vector<uint8_t> bits;
  int64_t copies = 1;
  bool operator==(const Document&) const = default;
};

std::vector<Document> SomeDocuments(int n) {
  std::mt19937 random(n);
  std::vector<Document> documents(n);
  for (int d = 0; d < n; ++d) {
    Document& document = documents[d];
    document.ids.resize(1 + (d < 20 ? d : random() % 300));
    for (int32_t& id : document.ids) id = static_cast<int32_t>(random() % 150000);
    document.bits.assign((document.ids.size() + 7) / 8, 0);
    for (size_t t = 0; t + 1 < document.ids.size(); ++t) {
      if (random() % 2) document.bits[t / 8] |= static_cast<uint8_t>(1 << (t % 8));
    }
    document.copies = 1 + d % 3 / 2;
  }
  return documents;
}

class TokenStoreTest : public testing::Test {
 protected:
  std::string Write(const std::vector<Document>& documents) {
    const std::string path = scratch_.path() + "/" + std::to_string(files_++) + ".tokens";
    auto writer = TokenStoreWriter::Create(path);
    EXPECT_TRUE(writer.ok()) << writer.status();
    for (const Document& d : documents) EXPECT_TRUE((*writer)->Add(d.ids, d.bits, d.copies).ok());
    EXPECT_FALSE(std::filesystem::exists(path));
    EXPECT_TRUE((*writer)->Finish().ok());
    return path;
  }
  // Flips one bit of the byte at `offset` (from the end when negative).
  static void Damage(const std::string& path, int64_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(offset, offset < 0 ? std::ios::end : std::ios::beg);
    const auto position = file.tellg();
    const char byte = static_cast<char>(file.get() ^ 0x10);
    file.seekp(position);
    file.put(byte);
  }

  support::ScratchFolder scratch_;
  int files_ = 0;
};

TEST_F(TokenStoreTest, GivesBackWhatWasWritten) {
  for (int n : {0, 1, 2, 5000}) {
    const auto documents = SomeDocuments(n);
    auto store = TokenStore::Open(Write(documents));
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_TRUE((*store)->VerifyDocuments().ok());
    int64_t d = 0, tokens = 0, targets = 0, longest = 0;
    for (const Document& document : documents) {
      int64_t own_targets = 0;
      for (uint8_t byte : document.bits) own_targets += std::popcount(byte);
      for (int64_t copy = 0; copy < document.copies; ++copy, ++d) {
        const auto ids = (*store)->tokens(d);
        const auto bits = (*store)->target_bits(d);
        ASSERT_EQ(std::vector<int32_t>(ids.begin(), ids.end()), document.ids);
        ASSERT_EQ(std::vector<uint8_t>(bits.begin(), bits.end()), document.bits);
        ASSERT_EQ((*store)->targets(d), own_targets);
        tokens += (*store)->length(d);
        targets += own_targets;
        longest = std::max<int64_t>(longest, (*store)->length(d));
      }
    }
    EXPECT_EQ((*store)->num_documents(), d);
    EXPECT_EQ((*store)->num_tokens(), tokens);
    EXPECT_EQ((*store)->num_targets(), targets);
    EXPECT_EQ((*store)->longest_document(), longest);
  }
}

TEST_F(TokenStoreTest, CopiesShareTheirBytes) {
  Document document = {std::vector<int32_t>(10000, 7), std::vector<uint8_t>(1250, 0), 50};
  const std::string path = Write({document});
  EXPECT_LT(std::filesystem::file_size(path), 50000u);
}

TEST_F(TokenStoreTest, NothingIsLeftBehindBeforeFinish) {
  {
    auto writer = TokenStoreWriter::Create(scratch_.path() + "/x.tokens");
    ASSERT_TRUE(writer.ok());
    const Document d = SomeDocuments(9)[8];
    ASSERT_TRUE((*writer)->Add(d.ids, d.bits, 1).ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(scratch_.path()));
}

// Invariant data-8: any damaged byte is found, either by Open or by VerifyDocuments.
TEST_F(TokenStoreTest, EveryDamagedByteIsFound) {
  const std::string path = Write(SomeDocuments(12));
  const int64_t bytes = static_cast<int64_t>(std::filesystem::file_size(path));
  for (int64_t offset = 0; offset < bytes; ++offset) {
    Damage(path, offset);
    auto store = TokenStore::Open(path);
    const absl::Status status = store.ok() ? (*store)->VerifyDocuments() : store.status();
    ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << "byte " << offset << ": " << status;
    ASSERT_NE(status.message().find(path), std::string_view::npos);
    Damage(path, offset);
  }
}

TEST_F(TokenStoreTest, AFileCutShortIsDataLoss) {
  const std::string path = Write(SomeDocuments(30));
  for (auto bytes = std::filesystem::file_size(path); bytes > 0;
       bytes -= std::min<size_t>(bytes, 97)) {
    if (bytes == std::filesystem::file_size(path)) continue;
    std::filesystem::resize_file(path, bytes);
    EXPECT_EQ(TokenStore::Open(path).status().code(), absl::StatusCode::kDataLoss) << bytes;
  }
}

TEST_F(TokenStoreTest, AMissingFileIsNotFoundAndAnImpossiblePlaceIsAnError) {
  EXPECT_EQ(TokenStore::Open(scratch_.path() + "/none").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_FALSE(TokenStoreWriter::Create(scratch_.path() + "/none/x").ok());
}

TEST_F(TokenStoreTest, CopiesOfAUnitKeepItsDocumentsTogether) {
  const std::string path = scratch_.path() + "/pairs.tokens";
  auto writer = *TokenStoreWriter::Create(path);
  const std::vector<int32_t> chosen = {1, 2, 3}, rejected = {4, 5};
  const std::vector<uint8_t> two = {3}, one = {1};
  const std::vector<StoredDocument> unit = {{.ids = chosen, .target_bits = two, .values = {}},
                                            {.ids = rejected, .target_bits = one, .values = {}}};
  ASSERT_TRUE(writer->Add(unit, 2).ok());
  ASSERT_TRUE(writer->Finish().ok());
  const auto store = *TokenStore::Open(path);
  ASSERT_EQ(store->num_documents(), 4);
  for (const int64_t first : {0, 2}) {
    EXPECT_EQ(store->length(first), 3);
    EXPECT_EQ(store->length(first + 1), 2);
  }
  EXPECT_EQ(store->tokens(2).data(), store->tokens(0).data()) << "stored once";
  EXPECT_EQ(store->num_targets(), 6);
  EXPECT_EQ(store->longest_document(), 3);
}

TEST_F(TokenStoreTest, ValuesStandBesideTheirDocuments) {
  const std::string path = scratch_.path() + "/values.tokens";
  auto writer = *TokenStoreWriter::Create(path);
  const std::vector<int32_t> ids = {1, 2, 3};
  const std::vector<uint8_t> bits = {3};
  for (const float value : {1.0f, 0.0f, 0.25f}) {
    const StoredDocument document{.ids = ids, .target_bits = bits, .values = {&value, 1}};
    ASSERT_TRUE(writer->Add({&document, 1}, value == 0 ? 2 : 1).ok());
  }
  ASSERT_TRUE(writer->Finish().ok());
  const auto store = *TokenStore::Open(path);
  ASSERT_EQ(store->values_per_document(), 1);
  const std::vector<float> expected = {1, 0, 0, 0.25};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(store->values(static_cast<int64_t>(i))[0], expected[i]);
    EXPECT_EQ(store->length(static_cast<int64_t>(i)), 3);
  }
  EXPECT_TRUE(store->VerifyDocuments().ok());
  Damage(path, -100);  // the last value
  EXPECT_EQ(TokenStore::Open(path).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(TokenStoreTest, ADocumentHasSeveralValues) {
  const std::string path = scratch_.path() + "/labels.tokens";
  auto writer = *TokenStoreWriter::Create(path);
  const std::vector<int32_t> ids = {1, 2, 3};
  const std::vector<uint8_t> bits = {3};
  const std::vector<float> first = {1, 0, 0.5}, second = {-2, 3, 4};
  const StoredDocument unit[] = {{.ids = ids, .target_bits = bits, .values = first},
                                 {.ids = ids, .target_bits = bits, .values = second}};
  ASSERT_TRUE(writer->Add(unit, 2).ok());
  const StoredDocument bare{.ids = ids, .target_bits = bits, .values = {}};
  const absl::Status other = writer->Add({&bare, 1}, 1);
  EXPECT_EQ(other.message(), "token store " + path + ": a document has 0 values, the first one 3");
  ASSERT_TRUE(writer->Finish().ok());
  const auto store = *TokenStore::Open(path);
  ASSERT_EQ(store->values_per_document(), 3);
  for (const int64_t copy : {0, 2}) {
    const auto values = store->values(copy), of_next = store->values(copy + 1);
    EXPECT_EQ(std::vector<float>(values.begin(), values.end()), first);
    EXPECT_EQ(std::vector<float>(of_next.begin(), of_next.end()), second);
  }
}

// Stores of every release before values are such.
TEST_F(TokenStoreTest, AStoreWithoutValuesIsOfVersionOne) {
  const std::string path = Write(SomeDocuments(5));
  EXPECT_EQ((*TokenStore::Open(path))->values_per_document(), 0);
  EXPECT_TRUE((*TokenStore::Open(path))->values(0).empty());
  const std::string bytes = support::ReadFile(path);
  TokenStoreTrailer trailer;
  std::memcpy(&trailer, bytes.data() + bytes.size() - sizeof(trailer), sizeof(trailer));
  EXPECT_EQ(trailer.version, 1u);
  EXPECT_EQ(trailer.values_xxh3, 0u);
}

}  // namespace
}  // namespace coxswain::data
