#include "common/files/glob.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include "tests/support/scratch_folder.h"

namespace coxswain {
namespace {

namespace fs = std::filesystem;

class GlobTest : public testing::Test {
 protected:
  GlobTest() {
    for (const char* folder : {"a", "a/deep", "a/.hidden", "b"}) {
      fs::create_directory(scratch_.path() + "/" + folder);
    }
    for (const char* file : {"2.json", "1.json", "3.csv", ".4.json", "a/5.json", "a/deep/6.json",
                             "a/.hidden/7.json", "b/8.json"}) {
      scratch_.Write(file, "");
    }
    fs::create_directory_symlink(scratch_.path() + "/a", scratch_.path() + "/b/loop");
  }

  // Names below the scratch folder.
  std::vector<std::string> Match(const std::string& pattern) {
    const auto found = FilesMatching(scratch_.path() + "/" + pattern);
    EXPECT_TRUE(found.ok()) << found.status();
    std::vector<std::string> names;
    for (const std::string& path : *found) names.push_back(path.substr(scratch_.path().size() + 1));
    return names;
  }

  support::ScratchFolder scratch_;
};

using Names = std::vector<std::string>;

TEST_F(GlobTest, MatchesFilesByNameSorted) {
  EXPECT_EQ(Match("*.json"), (Names{"1.json", "2.json"}));
  EXPECT_EQ(Match("[13].*"), (Names{"1.json", "3.csv"}));
  EXPECT_EQ(Match("?/*.json"), (Names{"a/5.json", "b/8.json"}));
  EXPECT_EQ(Match("*"), (Names{"1.json", "2.json", "3.csv"}));
  EXPECT_EQ(Match("none/*"), Names{});
  EXPECT_EQ(Match("*/5.json/*"), Names{});
}

TEST_F(GlobTest, TwoStarsAreAnyFoldersButHiddenOnesAndLinks) {
  EXPECT_EQ(Match("**/*.json"),
            (Names{"1.json", "2.json", "a/5.json", "a/deep/6.json", "b/8.json"}));
  EXPECT_EQ(Match("a/**"), (Names{"a/5.json", "a/deep/6.json"}));
}

TEST(GlobPatternTest, KnowsWhereASearchBegins) {
  EXPECT_TRUE(IsGlob("/data/*.json"));
  EXPECT_FALSE(IsGlob("/data/a.json"));
  EXPECT_EQ(GlobBase("/data/x/*.json"), "/data/x");
  EXPECT_EQ(GlobBase("/data/x*/y/[ab]"), "/data");
  EXPECT_EQ(GlobBase("/*"), "/");
  EXPECT_EQ(GlobBase("/data/a.json"), "/data/a.json");
}

}  // namespace
}  // namespace coxswain
