// Against what datasets makes of the same layouts: tests/fixtures/repositories.
#include "controller/data/repository/resolve_repository.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "controller/data/repository/converted_branch.h"
#include "controller/data/repository/path_pattern.h"
#include "controller/data/repository/snapshot_data.h"

namespace coxswain::data {
namespace {

using nlohmann::json;

json Golden() {
  return json::parse(std::ifstream("tests/fixtures/repositories/repositories.json"));
}

std::vector<std::string> PatternsOf(const json& value) {
  if (value.is_string()) return {value.get<std::string>()};
  return value.get<std::vector<std::string>>();
}

RepositoryQuery QueryOf(const json& layout) {
  RepositoryQuery query{.id = "owner/layout",
                        .files = layout["files"].get<std::vector<std::string>>(),
                        .readme = layout.value("readme", ""),
                        .name = layout.value("name", ""),
                        .data_dir = layout.value("data_dir", "")};
  const json asked = layout.value("data_files", json());
  if (asked.is_object()) {
    for (const auto& [split, paths] : asked.items()) {
      query.data_files.push_back({split, PatternsOf(paths)});
    }
  } else if (!asked.is_null()) {
    query.data_files.push_back({"train", PatternsOf(asked)});
  }
  return query;
}

json SplitsOf(const RepositoryData& data) {
  json splits = json::object();
  for (const SplitFiles& split : data.splits) splits[split.split] = split.files;
  return splits;
}

TEST(RepositoryTest, LayoutsResolveAsDatasetsResolvesThem) {
  const std::set<std::string> read = {"json", "csv", "text", "parquet", "arrow"};
  const json golden = Golden();
  EXPECT_GE(golden["layouts"].size(), 50u);
  for (const json& layout : golden["layouts"]) {
    SCOPED_TRACE(layout["layout"].get<std::string>());
    const json& answer = layout["answer"];
    const auto data = ResolveRepository(QueryOf(layout));
    if (answer.contains("error")) {
      EXPECT_TRUE(!data.ok() || !data->use_converted.empty());
      continue;
    }
    ASSERT_TRUE(data.ok()) << data.status();
    if (read.count(answer["module"].get<std::string>()) == 0) {
      EXPECT_NE(data->use_converted, "");
      EXPECT_TRUE(data->splits.empty());
      continue;
    }
    EXPECT_EQ(data->use_converted, "");
    EXPECT_EQ(SplitsOf(*data), answer["splits"]);
  }
}

TEST(RepositoryTest, SplitsAreInTheLibrarysOrder) {
  const auto data = ResolveRepository({.id = "o/n", .files = {"test.csv", "dev.csv", "train.csv"}});
  ASSERT_TRUE(data.ok()) << data.status();
  ASSERT_EQ(data->splits.size(), 3u);
  EXPECT_EQ(data->splits[0].split, "train");
  EXPECT_EQ(data->splits[1].split, "validation");
  EXPECT_EQ(data->splits[2].split, "test");
}

// RowsOf each part of the expression, with the counts of the fixture.
json RowsOfAll(const std::string& expression, const json& counts) {
  std::vector<SplitFiles> splits;
  for (const auto& [name, count] : counts.items()) splits.push_back({name, {name}});
  const auto selected = SelectSplits(splits, expression);
  if (!selected.ok()) return "refused";
  json rows = json::array();
  size_t path = 0;
  for (const DatasetPart& part : selected->parts) {
    const std::string& name = selected->paths[path];
    path += part.files;
    const auto range = RowsOf(part.rows, counts[name].get<int64_t>());
    if (!range.ok()) return "refused";
    rows.push_back({name, range->begin, range->end});
  }
  return rows;
}

TEST(RepositoryTest, ExpressionsSelectTheRowsOfDatasets) {
  const json golden = Golden();
  // nlohmann sorts objects; the library concatenates "all" in the order of its splits.
  EXPECT_GE(golden["expressions"].size(), 45u);
  for (const json& line : golden["expressions"]) {
    const std::string expression = line["split"].get<std::string>();
    SCOPED_TRACE(expression);
    json rows = RowsOfAll(expression, golden["rows"]);
    json expected = line["answer"].value("rows", json("refused"));
    // Another rounding is refused here.
    if (expression.find("pct1_dropremainder") != std::string::npos) expected = "refused";
    if (expression == "all") {
      std::sort(rows.begin(), rows.end());
      std::sort(expected.begin(), expected.end());
    }
    EXPECT_EQ(rows, expected);
  }
}

std::string RefusalOf(const RepositoryQuery& query) {
  const auto data = ResolveRepository(query);
  EXPECT_EQ(data.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(data.status().message());
}

constexpr char kConfigs[] =
    "---\nconfigs:\n- config_name: main\n  data_files: a.csv\n- config_name: other\n"
    "  data_files: b.csv\n  sep: ';'\n---\n";

TEST(RepositoryTest, MessagesSayWhatIsThere) {
  RepositoryQuery query{.id = "o/n", .files = {"a.csv", "b.csv"}, .readme = kConfigs};
  EXPECT_EQ(RefusalOf(query), "dataset o/n has several configs; name one of them: main, other");
  query.name = "none";
  EXPECT_EQ(RefusalOf(query), "dataset o/n has no config \"none\"; there are: main, other");
  query.readme = "---\nconfigs: 3\n---\n";
  EXPECT_EQ(RefusalOf(query), "dataset o/n README.md:2: configs are a list");
  query.readme = "\n---\r\nconfigs:\r\n- x: y\r\n---\r\n";
  EXPECT_EQ(RefusalOf(query), "dataset o/n README.md:4: a config has a config_name");
  query.readme = "---\na: [\n---\n";
  EXPECT_NE(RefusalOf(query).find("README.md:"), std::string::npos);
  query = {.id = "o/n", .files = {"a.csv"}, .data_files = {{"train", {"b.csv"}}}};
  EXPECT_EQ(RefusalOf(query), "dataset o/n has no data file b.csv, which is split train");
  query.data_files = {{"train", {"https://example.org/a.csv"}}};
  EXPECT_NE(RefusalOf(query).find("is an address"), std::string::npos);
  query.data_files = {{"train", {"x/../../a.csv"}}};
  EXPECT_NE(RefusalOf(query).find("leaves the repository"), std::string::npos);
  query.data_files = {{"train", {"/a.csv"}}};
  EXPECT_NE(RefusalOf(query).find("is absolute"), std::string::npos);
  query.data_files = {{"train", {"**.csv"}}};
  EXPECT_NE(RefusalOf(query).find("** is a part of its own"), std::string::npos);
}

TEST(RepositoryTest, WhatIsNotReadIsLeftToTheConvertedBranch) {
  const auto why = [](const RepositoryQuery& query) {
    const auto data = ResolveRepository(query);
    EXPECT_TRUE(data.ok()) << data.status();
    return data.ok() ? data->use_converted : "";
  };
  EXPECT_EQ(why({.id = "o/squad", .files = {"squad.py", "README.md"}}),
            "needs its script squad.py");
  EXPECT_EQ(why({.id = "squad", .files = {"squad.py"}}), "needs its script squad.py");
  EXPECT_NE(why({.id = "o/n", .files = {"a.tar", "b.tar"}}).find("holds a.tar"), std::string::npos);
  EXPECT_NE(why({.id = "o/n", .files = {"a.jsonl.xz"}}).find("a.jsonl.xz"), std::string::npos);
  EXPECT_NE(why({.id = "o/n", .files = {"a.csv.zip", "b.csv"}}).find("a.csv.zip"),
            std::string::npos);
  EXPECT_EQ(why({.id = "o/n", .files = {"a.csv", "b.csv"}, .readme = kConfigs, .name = "other"}),
            "has its config other read with sep (README.md)");
  // Who names the files needs no script, and gets no others.
  EXPECT_EQ(why({.id = "o/n", .files = {"n.py", "a.csv"}, .data_files = {{"train", {"a.csv"}}}}),
            "");
  EXPECT_NE(RefusalOf({.id = "o/n", .files = {"a.tar"}, .data_files = {{"train", {"a.tar"}}}})
                .find("holds a.tar, which is not read"),
            std::string::npos);
}

TEST(RepositoryTest, TheConvertedBranchIsFoldersOfConfigsAndSplits) {
  RepositoryQuery branch{
      .id = "o/n",
      .files = {".gitattributes", "plain/test/0000.parquet", "plain/train/0001.parquet",
                "plain/train/0000.parquet", "plain/partial-extra/0000.parquet"}};
  auto data = ResolveConverted(branch, "needs its script n.py");
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->config, "plain");
  ASSERT_EQ(data->splits.size(), 3u);
  EXPECT_EQ(data->splits[0].split, "train");
  EXPECT_EQ(data->splits[0].files,
            (std::vector<std::string>{"plain/train/0000.parquet", "plain/train/0001.parquet"}));
  EXPECT_EQ(data->splits[2].split, "extra");
  EXPECT_EQ(data->note,
            "dataset o/n: the hub's copy in Parquet has only the first part of split extra");
  branch.files.push_back("other/train/0000.parquet");
  EXPECT_EQ(ResolveConverted(branch, "w").status().message(),
            "dataset o/n has several configs; name one of them: other, plain");
  branch.name = "other";
  data = ResolveConverted(branch, "w");
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->splits.size(), 1u);
  EXPECT_EQ(data->note, "");
  branch.files = {".gitattributes"};
  const absl::Status none = ResolveConverted(branch, "needs its script n.py").status();
  EXPECT_TRUE(
      std::string(none.message())
          .starts_with("dataset o/n needs its script n.py, and the hub has no copy of it in "
                       "Parquet (refs/convert/parquet); "));
}

TEST(RepositoryTest, PatternsMatchPartByPart) {
  const auto meant = [](const std::string& pattern, const std::string& path) {
    const auto files = FilesMeant(pattern, {path});
    EXPECT_TRUE(files.ok()) << files.status();
    return files.ok() && files->size() == 1;
  };
  EXPECT_TRUE(meant("**", "a/b/c"));
  EXPECT_TRUE(meant("**/c", "c"));
  EXPECT_TRUE(meant("a/**/c", "a/c"));
  EXPECT_TRUE(meant("a/**/b/**/c", "a/x/b/b/y/c"));
  EXPECT_FALSE(meant("a/**", "a"));
  EXPECT_FALSE(meant("a/**", "b/a/c"));
  EXPECT_FALSE(meant("*", "a/b"));
  EXPECT_TRUE(meant("a*b*c", "axxbyybzc"));
  EXPECT_FALSE(meant("a*b", "a/b"));
  EXPECT_TRUE(meant("a?c", "abc"));
  EXPECT_FALSE(meant("a?c", "ac"));
  EXPECT_TRUE(meant("[a-c][!x]", "by"));
  EXPECT_FALSE(meant("[a-c][!x]", "bx"));
  EXPECT_TRUE(meant("[]a]x", "]x"));
  EXPECT_TRUE(meant("[-._ 0-9]x", "-x"));
  EXPECT_TRUE(meant("[ab", "[ab"));
  EXPECT_TRUE(meant("*[!a]", "ab"));
  EXPECT_FALSE(meant("**", ".git/config"));
  EXPECT_FALSE(meant("**", "README.md"));
  EXPECT_TRUE(meant("README.md", "README.md"));
}

}  // namespace
}  // namespace coxswain::data
