// Reads a GGUF file as the facts of llama.cpp's converter describe one (tests/fixtures/README.md).
#ifndef COXSWAIN_TESTS_SUPPORT_GGUF_FILE_H_
#define COXSWAIN_TESTS_SUPPORT_GGUF_FILE_H_

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace coxswain::support {

struct GgufFacts {
  // By key: {type, value}; the value of an array is {of, count, sha256}, by the text that Python's
  // json.dumps makes of it.
  std::map<std::string, nlohmann::json> fields = {};
  std::map<std::string, nlohmann::json> tensors = {};  // by name: {type, shape, bytes, sha256}
  std::map<std::string, std::string> data = {};        // by name: the bytes of each tensor
  std::map<std::string, nlohmann::json> arrays = {};   // by key: the elements
  int64_t file_bytes = 0;
};

// Throws std::runtime_error for what is no such file: it is for tests, which then fail.
GgufFacts ReadGguf(const std::string& path);

}  // namespace coxswain::support

#endif  // COXSWAIN_TESTS_SUPPORT_GGUF_FILE_H_
