// The header of a safetensors file. The first byte is how many bytes lie behind it, in words of 4.
#include "common/files/safetensors/safetensors_header.h"

#include <string>

#include "tests/fuzz/fuzz_target.h"

namespace coxswain {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const int64_t data_bytes = int64_t{data[0]} * 4;
  const auto header = ParseSafetensorsHeader(fuzz::TextOf(data + 1, size - 1), data_bytes);
  if (!header.ok()) return 0;
  const std::string written = FormatSafetensorsHeader(header->entries, header->metadata);
  fuzz::Expect(written.size() % 8 == 0, "a header ends at a multiple of 8 bytes");
  const auto again = ParseSafetensorsHeader(written, data_bytes);
  fuzz::Expect(again.ok(), "a header as written is read: " + again.status().ToString());
  fuzz::Expect(again->metadata == header->metadata, "metadata are kept");
  fuzz::Expect(FormatSafetensorsHeader(again->entries, again->metadata) == written,
               "tensors are kept");
  return 0;
}

}  // namespace coxswain
