// A chat template: none may crash, hang, or pass a limit. Invariant jinja-3.
#include <string>

#include "tests/controller/text/jinja/render_anything.h"
#include "tests/fuzz/fuzz_target.h"

namespace coxswain {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string broken = data::jinja::RenderAnything(std::string(fuzz::TextOf(data, size)));
  fuzz::Expect(broken.empty(), broken);
  return 0;
}

}  // namespace coxswain
