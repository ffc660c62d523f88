// Hugging Face tokenizer.json or SentencePiece tokenizer.model: text to token ids and back, equal
// to Hugging Face `tokenizers` on every input.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, Tokenizer::Load("/models/Qwen2.5"));
//   std::vector<int32_t> ids;
//   RETURN_IF_ERROR(tokenizer->Encode("<|im_start|>user\nHi<|im_end|>\n", &ids));
//   std::string text = tokenizer->Decode(ids, /*skip_special=*/false);
//
// Immutable after Load and safe to share between threads.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_TOKENIZER_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/text/tokenizer/text_marks.h"

namespace coxswain::data {

class Tokenizer {
 public:
  // `path` is a model directory, or its tokenizer.json (plain or .gz) or tokenizer.model.
  // tokenizer_config.json beside it is read if it exists. NotFound: neither file exists.
  // InvalidArgument names the file, the finding and what is supported: broken JSON, another kind of
  // model, an unknown normalizer, pre-tokenizer, post-processor or decoder, or added tokens whose
  // ids do not follow the vocabulary. `added`: special tokens that get the next ids, as by
  // transformers' add_special_tokens. Tokens that already exist stay unchanged.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(
      const std::string& path, const std::vector<std::string>& added = {});
  ~Tokenizer();

  // Appends the ids of `text`. Added tokens written in it ("<|im_end|>") become their ids, as in
  // `tokenizers` and in every training stack built on it. The post-processor does not run: the
  // renderer of the text writes BOS and EOS. Bytes that are not UTF-8 count as U+FFFD, one for each
  // maximal ill-formed part (Python: errors="replace"). ResourceExhausted when the pre-tokenizer's
  // regex runs out of its stack; `ids` then holds an undefined suffix.
  absl::Status Encode(std::string_view text, std::vector<int32_t>* ids) const;

  // The same, except that tokens marked `special` are plain text (transformers:
  // split_special_tokens=True). Added tokens that are not special, and those given to Load, are
  // still recognised. `special_as_text` gets the ids of tokens that became text; it may be null.
  absl::Status EncodePlain(std::string_view text, std::vector<int32_t>* ids,
                           std::vector<int32_t>* special_as_text = nullptr) const;

  // Encode of a text with marks. `wanted` gets one value per id: true when the token covers a byte
  // of marks.ranges. White space that an added token includes (lstrip, rstrip) does not count.
  // `broken` gets the ids of tokens that a seam breaks; it may be null.
  absl::Status EncodeMarked(std::string_view text, const TextMarks& marks,
                            std::vector<int32_t>* ids, std::vector<bool>* wanted,
                            std::vector<int32_t>* broken = nullptr) const;

  // Encode of every text, in the order of `texts`, over `threads` threads (0: all cores).
  absl::StatusOr<std::vector<std::vector<int32_t>>> EncodeBatch(
      std::span<const std::string_view> texts, int threads) const;

  // Always valid UTF-8: a cut character becomes U+FFFD. Ids without a token give nothing.
  std::string Decode(std::span<const int32_t> ids, bool skip_special) const;

  std::optional<int32_t> TokenToId(std::string_view token) const;
  // The token as tokenizer.json writes it ("Ġthe"); empty for an id without a token.
  std::string_view IdToToken(int32_t id) const;
  bool IsSpecial(int32_t id) const;
  bool Counts(int32_t id) const;  // special, and one of `added`: EncodePlain recognises it

  int32_t eos_id() const;      // -1: tokenizer_config.json names none
  int32_t bos_id() const;      // -1: none
  int32_t pad_id() const;      // -1: none
  int32_t vocab_size() const;  // largest id + 1; ids below it may be holes
  bool byte_level() const;     // byte-level BPE
  // Tokens of `added` that were not there before. They have the last ids.
  std::span<const std::string> added() const;
  // Ids that the post-processor would put around one text, such as BOS of Llama-3, or those of
  // add_bos_token and add_eos_token in tokenizer_config.json.
  std::span<const int32_t> ids_in_front() const;
  std::span<const int32_t> ids_behind() const;
  // Jinja text of chat_template.jinja, or else of tokenizer_config.json; empty: none of that name.
  // Some models have another template "tool_use".
  const std::string& chat_template(std::string_view name = "default") const;
  // SHA-256, lower-case hex, of the files that were read (tokenizer.json uncompressed).
  const std::string& fingerprint() const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_TOKENIZER_H_
