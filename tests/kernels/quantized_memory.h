// Arrays on the device of whichever library a test is linked with, seen from the host.
#ifndef COXSWAIN_TESTS_KERNELS_QUANTIZED_MEMORY_H_
#define COXSWAIN_TESTS_KERNELS_QUANTIZED_MEMORY_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/files/safetensors/safetensors.h"
#include "kernels/device.h"
#include "tests/support/golden_folder.h"

namespace coxswain::kernels {

template <typename T>
class OnDevice {
 public:
  // Filled with 0xff.
  explicit OnDevice(int64_t count) : count_(count), data_(AllocateMemory(Bytes() + 16)) {
    SetMemory(data_, 0xff, Bytes() + 16, nullptr);
  }
  explicit OnDevice(const std::vector<T>& values) : OnDevice(static_cast<int64_t>(values.size())) {
    CopyMemory(data_, values.data(), Bytes(), nullptr);
  }
  ~OnDevice() { FreeMemory(data_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  T* data() const { return static_cast<T*>(data_); }
  std::vector<T> Read() const {
    std::vector<T> values(static_cast<size_t>(count_));
    CopyMemory(values.data(), data_, Bytes(), nullptr);
    return values;
  }

 private:
  int64_t Bytes() const { return count_ * static_cast<int64_t>(sizeof(T)); }

  const int64_t count_;
  void* const data_;
};

// A file of tests/fixtures/golden/bits.tar.xz.
class BitsFile {
 public:
  explicit BitsFile(const std::string& name) {
    auto file = SafetensorsFile::Open(support::GoldenFolder("bits") + "/" + name + ".safetensors");
    if (!file.ok()) throw std::runtime_error(file.status().ToString());  // fails the test
    file_ = *std::move(file);
  }

  template <typename T>
  std::vector<T> Values(const std::string& name) const {
    const TensorInfo* tensor = file_->Find(name);
    EXPECT_NE(tensor, nullptr) << name;
    if (tensor == nullptr) return {};
    std::vector<T> values(static_cast<size_t>(tensor->bytes) / sizeof(T));
    std::memcpy(values.data(), tensor->data, static_cast<size_t>(tensor->bytes));
    return values;
  }
  std::vector<int64_t> Shape(const std::string& name) const { return file_->Find(name)->shape; }

 private:
  std::unique_ptr<SafetensorsFile> file_;
};

}  // namespace coxswain::kernels

#endif  // COXSWAIN_TESTS_KERNELS_QUANTIZED_MEMORY_H_
