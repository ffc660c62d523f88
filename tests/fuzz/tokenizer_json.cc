// tokenizer.json and tokenizer.model: what loads encodes any text and decodes its ids.
#include <string>
#include <vector>

#include "common/outside_text.h"
#include "controller/text/tokenizer/tokenizer.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/scratch_folder.h"

namespace coxswain {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const support::ScratchFolder folder;
  // A SentencePiece model begins with a line feed, as its first field does.
  const bool model = size > 0 && data[0] == '\n';
  const std::string path =
      folder.Write(model ? "tokenizer.model" : "tokenizer.json", fuzz::TextOf(data, size));
  const auto tokenizer = data::Tokenizer::Load(path);
  if (!tokenizer.ok()) {
    fuzz::Expect(!tokenizer.status().message().empty(), "a refusal says why");
    return 0;
  }
  for (const char* text : {"", "Hello, world! 12345", "Gr\u00fc\u00dfe \U0001f642\n\n",
                           "\xff\xe2\x82", "<|im_end|>"}) {
    for (const bool plain : {false, true}) {
      std::vector<int32_t> ids;
      const absl::Status encoded =
          plain ? (*tokenizer)->EncodePlain(text, &ids) : (*tokenizer)->Encode(text, &ids);
      if (!encoded.ok()) continue;
      for (const int32_t id : ids) {
        fuzz::Expect(id >= 0 && id < (*tokenizer)->vocab_size(), "ids are of the vocabulary");
      }
      const std::string back = (*tokenizer)->Decode(ids, /*skip_special=*/plain);
      fuzz::Expect(IsUtf8(back), "what is decoded is UTF-8");
    }
  }
  return 0;
}

}  // namespace coxswain
