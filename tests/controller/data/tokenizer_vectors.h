// Golden vectors of a tokenizer: JSON lines with text, ids, decoded.
#ifndef COXSWAIN_TESTS_CONTROLLER_DATA_TOKENIZER_VECTORS_H_
#define COXSWAIN_TESTS_CONTROLLER_DATA_TOKENIZER_VECTORS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "controller/data/tokenizer/gzip_file.h"
#include "controller/data/tokenizer/tokenizer.h"

namespace coxswain::data {

// The folder of large test inputs outside the repository.
inline std::string SharedDir() {
  const char* override_dir = std::getenv("COXSWAIN_SHARED");
  return override_dir != nullptr ? override_dir : "../shared";
}

// Encodes and decodes every line of `vectors` and expects what it says. Returns the lines checked.
inline int CheckVectors(const Tokenizer& tokenizer, const std::string& vectors) {
  const absl::StatusOr<std::string> text = ReadMaybeGzip(vectors);
  EXPECT_TRUE(text.ok()) << text.status();
  if (!text.ok()) return 0;
  std::istringstream lines(*text);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const nlohmann::json vector = nlohmann::json::parse(line);
    const auto& input = vector["text"].get_ref<const std::string&>();
    const auto expected = vector["ids"].get<std::vector<int32_t>>();
    std::vector<int32_t> ids;
    const bool plain = vector.value("plain", false);
    const absl::Status status =
        plain ? tokenizer.EncodePlain(input, &ids) : tokenizer.Encode(input, &ids);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(ids, expected) << "line " << count + 1 << ": " << line.substr(0, 300);
    EXPECT_EQ(tokenizer.Decode(expected, /*skip_special=*/false),
              vector["decoded"].get_ref<const std::string&>())
        << "line " << count + 1;
    if (vector.contains("decoded_skip")) {
      EXPECT_EQ(tokenizer.Decode(expected, /*skip_special=*/true),
                vector["decoded_skip"].get_ref<const std::string&>())
          << "line " << count + 1;
    }
    if (::testing::Test::HasFailure()) break;  // the first differing line is enough
  }
  return count;
}

}  // namespace coxswain::data

#endif  // COXSWAIN_TESTS_CONTROLLER_DATA_TOKENIZER_VECTORS_H_
