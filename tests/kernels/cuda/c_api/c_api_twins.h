// What the tests of kernels/c_api/c_api.h share: an op and its C function get the same inputs, each
// its own outputs, and give the same bits.
#ifndef COXSWAIN_TESTS_KERNELS_CUDA_C_API_C_API_TWINS_H_
#define COXSWAIN_TESTS_KERNELS_CUDA_C_API_C_API_TWINS_H_

#include <string>
#include <vector>

#include "kernels/c_api/c_api.h"
#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {

// The test stream fills a scratch; C functions run on the default stream.
inline coxswain_workspace Lent(const Scratch& scratch) {
  Synchronize(TestStream());
  return {scratch.data(), scratch.bytes()};
}

// A tensor for the op and its twin for the C function.
struct Twins {
  DeviceTensor op, c;
  explicit Twins(const Floats& values, DType dtype = DType::kBFloat16)
      : op(dtype, values), c(dtype, values) {}
  void ExpectSame(const char* what) const {
    Synchronize(nullptr);
    EXPECT_TRUE(SameBits(op.Read(), c.Read())) << what;
  }
};

// The same of plain values.
template <typename T>
struct ValueTwins {
  DeviceValues<T> op, c;
  explicit ValueTwins(const std::vector<T>& values) : op(values), c(values) {}
  void ExpectSame(const char* what) const {
    Synchronize(nullptr);
    EXPECT_EQ(op.Read(), c.Read()) << what;
  }
};

#define EXPECT_OK(call) EXPECT_EQ(call, COXSWAIN_OK) << coxswain_last_error()

// The call violated a contract, and coxswain_last_error() says `what`.
#define EXPECT_REFUSED(call, what)                                            \
  EXPECT_EQ(call, COXSWAIN_INVALID_ARGUMENT);                                 \
  EXPECT_NE(std::string(coxswain_last_error()).find(what), std::string::npos) \
      << coxswain_last_error()

}  // namespace coxswain::kernels

#endif  // COXSWAIN_TESTS_KERNELS_CUDA_C_API_C_API_TWINS_H_
