#include "common/web/model_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/common/web/web_fixture.h"

namespace coxswain::web {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;

class ModelFolderTest : public testing::Test {
 protected:
  void Put(const std::string& name, const std::string& content) {
    server_.Put("/models/tiny/" + name, {.content = content});
  }
  absl::StatusOr<UrlCopy> BringModel(const std::string& url = "/models/tiny") {
    return Bring(server_.settings(), UrlKind::kModel, server_.Url(url));
  }
  static std::string Names(const UrlCopy& copy) {
    std::string names;
    for (const UrlFile& file : copy.files) names += file.name + " ";
    return names;
  }

  WebServer server_;
};

TEST_F(ModelFolderTest, AModelIsAFolderWithItsNames) {
  Put("config.json", "{}");
  Put("tokenizer.json", WebNoise(70'000, 1));
  Put("model.safetensors", WebNoise(200'000, 2));
  Put("pytorch_model.bin", WebNoise(200'000, 3));
  const auto copy = BringModel();
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(Names(*copy), "config.json model.safetensors tokenizer.json ");
  EXPECT_EQ(support::ReadFile(copy->path + "/config.json"), "{}");
  EXPECT_EQ(support::ReadFile(copy->path + "/model.safetensors"), WebNoise(200'000, 2));
  EXPECT_EQ(copy->fetched_bytes, 270'002);
  int entries = 0;
  for (const auto& entry : fs::directory_iterator(copy->path)) entries += entry.is_regular_file();
  EXPECT_EQ(entries, 3) << "nothing else lies in the folder";
  EXPECT_EQ(BringModel("/models/tiny/")->fetched_bytes, 270'002) << "another URL";
  EXPECT_EQ(BringModel()->fetched_bytes, 0);
}

TEST_F(ModelFolderTest, ShardsAreThoseThatTheIndexNames) {
  Put("config.json", "{}");
  Put("model.safetensors.index.json",
      R"({"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}})");
  Put("model-1.safetensors", "one");
  const absl::Status missing = BringModel().status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_NE(missing.message().find("model-2.safetensors does not exist"), std::string::npos)
      << missing;
  Put("model-2.safetensors", "two");
  const auto copy = BringModel();
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(Names(*copy),
            "config.json model-1.safetensors model-2.safetensors model.safetensors.index.json ");
}

// Invariant web-5.
TEST_F(ModelFolderTest, AnIndexLeadsNowhereElse) {
  Put("config.json", "{}");
  for (const std::string name : {"../../x.safetensors", "/etc/x.safetensors", "..", "x.txt", ""}) {
    Put("model.safetensors.index.json", R"({"weight_map": {"a": ")" + name + R"("}})");
    EXPECT_EQ(BringModel().status().code(), StatusCode::kInvalidArgument) << name;
  }
  for (const std::string index :
       {"", "[]", "{}", R"({"weight_map": {}})", R"({"weight_map": 3})"}) {
    Put("model.safetensors.index.json", index);
    EXPECT_EQ(BringModel().status().code(), StatusCode::kInvalidArgument) << index;
  }
}

TEST_F(ModelFolderTest, ConfigAndWeightsAreNeeded) {
  const absl::Status none = BringModel().status();
  EXPECT_EQ(none.code(), StatusCode::kNotFound);
  EXPECT_NE(none.message().find("/models/tiny/config.json does not exist"), std::string::npos)
      << none;
  Put("config.json", "{}");
  const absl::Status empty = BringModel().status();
  EXPECT_EQ(empty.code(), StatusCode::kNotFound);
  EXPECT_NE(empty.message().find("no weights"), std::string::npos) << empty;
  // Object stores say 403 of what is not there.
  server_.Put("/models/tiny/model.safetensors", {.content = "", .status = 403});
  Put("pytorch_model.bin", "weights");
  EXPECT_TRUE(BringModel().ok());
}

}  // namespace
}  // namespace coxswain::web
