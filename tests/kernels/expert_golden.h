// The golden models with experts, which are not part of the repository: in $COXSWAIN_FIXTURES/moe,
// else in fixtures/moe of $COXSWAIN_SHARED or ../shared.
#ifndef COXSWAIN_TESTS_KERNELS_EXPERT_GOLDEN_H_
#define COXSWAIN_TESTS_KERNELS_EXPERT_GOLDEN_H_

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/files/safetensors/safetensors.h"
#include "tests/kernels/values.h"

namespace coxswain::kernels {

// The folder of case `name`; empty where it is not.
inline std::string ExpertGoldenFolder(const std::string& name) {
  const char* fixtures = std::getenv("COXSWAIN_FIXTURES");
  const char* shared = std::getenv("COXSWAIN_SHARED");
  const std::string folder =
      fixtures != nullptr ? fixtures
                          : std::string(shared != nullptr ? shared : "../shared") + "/fixtures";
  const std::string path = folder + "/moe/" + name;
  return std::filesystem::exists(path) ? path : "";
}

class GoldenTensors {
 public:
  explicit GoldenTensors(const std::string& path) {
    auto file = SafetensorsFile::Open(path);
    if (!file.ok()) throw std::runtime_error(file.status().ToString());  // fails the test
    file_ = *std::move(file);
  }

  bool Has(const std::string& name) const { return file_->Find(name) != nullptr; }
  const std::vector<int64_t>& Shape(const std::string& name) const { return Get(name).shape; }
  template <typename T>
  std::vector<T> Values(const std::string& name) const {
    const TensorInfo& tensor = Get(name);
    std::vector<T> values(static_cast<size_t>(tensor.bytes) / sizeof(T));
    std::memcpy(values.data(), tensor.data, static_cast<size_t>(tensor.bytes));
    return values;
  }
  // Of float32.
  Doubles Wide(const std::string& name) const { return Double(Values<float>(name)); }

 private:
  const TensorInfo& Get(const std::string& name) const {
    const TensorInfo* tensor = file_->Find(name);
    if (tensor == nullptr) throw std::runtime_error(name + " is not in " + file_->path());
    return *tensor;
  }

  std::unique_ptr<SafetensorsFile> file_;
};

}  // namespace coxswain::kernels

#endif  // COXSWAIN_TESTS_KERNELS_EXPERT_GOLDEN_H_
