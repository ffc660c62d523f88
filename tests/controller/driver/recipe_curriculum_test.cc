#include "controller/driver/recipe_curriculum.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <random>

#include "common/data/token_store_writer.h"

namespace coxswain::driver {
namespace {

// Documents of any length, so that target bits start at every offset within a byte.
TEST(AppendBinTest, JoinsTokensAndTargetBitsOfDocuments) {
  const std::string path = testing::TempDir() + "/append_bin.store";
  std::mt19937 random(5);
  std::vector<std::vector<int32_t>> tokens;
  std::vector<std::vector<bool>> targets;
  {
    auto writer = *data::TokenStoreWriter::Create(path);
    for (int document = 0; document < 40; ++document) {
      const size_t length = 1 + random() % 37;
      std::vector<int32_t> ids(length);
      std::vector<bool> marks(length);
      std::vector<uint8_t> bits((length + 7) / 8);
      for (size_t t = 0; t < length; ++t) {
        ids[t] = static_cast<int32_t>(random() % 50000);
        marks[t] = t + 1 < length && random() % 3 != 0;
        if (marks[t]) bits[t / 8] |= static_cast<uint8_t>(1u << (t % 8));
      }
      ASSERT_TRUE(writer->Add(ids, bits, 1).ok());
      tokens.push_back(ids);
      targets.push_back(marks);
    }
    ASSERT_TRUE(writer->Finish().ok());
  }
  auto store = *data::TokenStore::Open(path);
  v1::Bins bins;
  const std::vector<std::vector<int64_t>> wanted = {{3, 1, 4}, {15}, {9, 2, 6, 5, 35, 8}};
  for (size_t bin = 0; bin < wanted.size(); ++bin) {
    AppendBin(*store, static_cast<int64_t>(bin) + 70, wanted[bin], BinForm::kTokens, &bins);
  }
  std::vector<int32_t> ids;
  std::vector<bool> marks;
  for (const auto& bin : wanted) {
    for (const int64_t document : bin) {
      ids.insert(ids.end(), tokens[document].begin(), tokens[document].end());
      marks.insert(marks.end(), targets[document].begin(), targets[document].end());
    }
  }
  EXPECT_EQ(bins.bin_ids(1), 71);
  EXPECT_EQ(bins.documents_per_bin(2), 6);
  ASSERT_EQ(bins.token_ids().size(), ids.size() * sizeof(int32_t));
  EXPECT_EQ(std::memcmp(bins.token_ids().data(), ids.data(), bins.token_ids().size()), 0);
  ASSERT_EQ(bins.targets().size(), (ids.size() + 7) / 8);
  for (size_t t = 0; t < marks.size(); ++t) {
    EXPECT_EQ((static_cast<uint8_t>(bins.targets()[t / 8]) >> (t % 8) & 1) != 0, marks[t]) << t;
  }
  v1::Bins by_ids;
  AppendBin(*store, 7, wanted[2], BinForm::kDocumentIds, &by_ids);
  EXPECT_EQ(by_ids.bin_ids(0), 7);
  EXPECT_EQ(by_ids.documents_per_bin(0), 6);
  EXPECT_EQ(std::vector<int64_t>(by_ids.document_ids().begin(), by_ids.document_ids().end()),
            wanted[2]);
  EXPECT_TRUE(by_ids.token_ids().empty() && by_ids.document_lengths().empty());
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace coxswain::driver
