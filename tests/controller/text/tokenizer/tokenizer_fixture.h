// A small tokenizer for tests: tests/fixtures/tokenizer/base.json.gz, altered by a JSON merge
// patch.
#ifndef COXSWAIN_TESTS_CONTROLLER_TEXT_TOKENIZER_TOKENIZER_FIXTURE_H_
#define COXSWAIN_TESTS_CONTROLLER_TEXT_TOKENIZER_TOKENIZER_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "controller/text/tokenizer/file/gzip_file.h"
#include "controller/text/tokenizer/tokenizer.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::data {

inline const char kTokenizerFixtures[] = "tests/fixtures/tokenizer/";

inline nlohmann::json BaseTokenizerJson() {
  const auto text = ReadMaybeGzip(std::string(kTokenizerFixtures) + "base.json.gz");
  EXPECT_TRUE(text.ok()) << text.status();
  return nlohmann::json::parse(text.value_or("{}"));
}

inline absl::StatusOr<std::unique_ptr<Tokenizer>> LoadJson(const nlohmann::json& tokenizer,
                                                           const std::string& config = "") {
  const support::ScratchFolder directory;
  directory.Write("tokenizer.json", tokenizer.dump());
  if (!config.empty()) directory.Write("tokenizer_config.json", config);
  return Tokenizer::Load(directory.path());
}

inline std::unique_ptr<Tokenizer> BaseTokenizer() {
  auto tokenizer = Tokenizer::Load(std::string(kTokenizerFixtures) + "base.json.gz");
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

inline std::vector<int32_t> Ids(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> ids;
  const absl::Status status = tokenizer.Encode(text, &ids);
  EXPECT_TRUE(status.ok()) << status;
  return ids;
}

}  // namespace coxswain::data

#endif  // COXSWAIN_TESTS_CONTROLLER_TEXT_TOKENIZER_TOKENIZER_FIXTURE_H_
