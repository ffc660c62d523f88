// manifest.json of a checkpoint: what is read is written and read alike.
#include "controller/checkpoint/manifest.h"

#include <string>

#include "tests/fuzz/fuzz_target.h"

namespace coxswain {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto manifest = checkpoint::ParseManifest(std::string(fuzz::TextOf(data, size)), "/c/m");
  if (!manifest.ok()) {
    fuzz::Expect(absl::IsDataLoss(manifest.status()), "a broken manifest is lost data");
    return 0;
  }
  fuzz::Expect(manifest->total_bytes() >= 0, "sizes add up");
  const std::string written = checkpoint::ToJson(*manifest);
  const auto again = checkpoint::ParseManifest(written, "/c/m");
  fuzz::Expect(again.ok(), "a manifest as written is read: " + again.status().ToString());
  fuzz::Expect(checkpoint::ToJson(*again) == written, "nothing is lost");
  return 0;
}

}  // namespace coxswain
