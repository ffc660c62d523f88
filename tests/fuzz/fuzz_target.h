// What every fuzz target defines, and how it says that a promise was broken.
#ifndef COXSWAIN_TESTS_FUZZ_FUZZ_TARGET_H_
#define COXSWAIN_TESTS_FUZZ_FUZZ_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

// One input, of any bytes; what it leaves behind must not change what the next one does. 0.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace coxswain::fuzz {

inline std::string_view TextOf(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Ends the process, as a crash does, when `holds` is false.
inline void Expect(bool holds, const std::string& promise) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", promise.c_str());
  std::abort();
}

}  // namespace coxswain::fuzz

#endif  // COXSWAIN_TESTS_FUZZ_FUZZ_TARGET_H_
