// Golden vectors of a tokenizer, and where large test inputs are.
#ifndef COXSWAIN_TESTS_CONTROLLER_TEXT_TOKENIZER_TOKENIZER_VECTORS_H_
#define COXSWAIN_TESTS_CONTROLLER_TEXT_TOKENIZER_TOKENIZER_VECTORS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "controller/text/tokenizer/file/gzip_file.h"
#include "controller/text/tokenizer/tokenizer.h"

namespace coxswain::data {

// The folder of large test inputs outside the repository.
inline std::string SharedDir() {
  const char* override_dir = std::getenv("COXSWAIN_SHARED");
  return override_dir != nullptr ? override_dir : "../shared";
}

// Checks one vector {text, ids, decoded}; decoded_skip (special tokens left out) and plain
// (EncodePlain) where it has them.
inline void CheckVector(const Tokenizer& tokenizer, const nlohmann::json& vector) {
  const auto& text = vector["text"].get_ref<const std::string&>();
  const auto expected = vector["ids"].get<std::vector<int32_t>>();
  std::vector<int32_t> ids;
  const absl::Status status = vector.value("plain", false) ? tokenizer.EncodePlain(text, &ids)
                                                           : tokenizer.Encode(text, &ids);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(ids, expected) << vector.dump().substr(0, 300);
  EXPECT_EQ(tokenizer.Decode(expected, /*skip_special=*/false),
            vector["decoded"].get_ref<const std::string&>());
  if (!vector.contains("decoded_skip")) return;
  EXPECT_EQ(tokenizer.Decode(expected, /*skip_special=*/true),
            vector["decoded_skip"].get_ref<const std::string&>());
}

// The vectors of a file of JSON lines, plain or gzip.
inline std::vector<nlohmann::json> ReadVectors(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadMaybeGzip(path);
  EXPECT_TRUE(text.ok()) << text.status();
  std::vector<nlohmann::json> vectors;
  std::istringstream lines(text.value_or(""));
  for (std::string line; std::getline(lines, line);) vectors.push_back(nlohmann::json::parse(line));
  return vectors;
}

}  // namespace coxswain::data

#endif  // COXSWAIN_TESTS_CONTROLLER_TEXT_TOKENIZER_TOKENIZER_VECTORS_H_
