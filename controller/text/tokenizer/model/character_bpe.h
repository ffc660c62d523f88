// BPE over characters, as in SentencePiece. Characters outside the vocabulary become byte tokens
// ("<0x0A>") or the unknown token.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_MODEL_CHARACTER_BPE_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_MODEL_CHARACTER_BPE_H_

#include <array>
#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "controller/text/tokenizer/model/bpe.h"
#include "controller/text/tokenizer/unicode/utf8.h"

namespace coxswain::data {

class CharacterBpe {
 public:
  struct Model {
    std::vector<std::string> tokens;  // by id
    std::vector<Bpe::Rule> rules;
    std::array<int32_t, 256> byte_ids;  // -1: the byte has no token
    int32_t unknown_id = -1;            // -1: such characters are dropped
    bool fuse_unknown = false;          // neighbouring unknown characters are one token
    // Token -> id. Every word is first looked up there. Empty unless the model sets ignore_merges.
    absl::flat_hash_map<std::string, int32_t> whole_words;
  };

  explicit CharacterBpe(Model model);

  // The id of the whole `word`; -1: cut and merge the word.
  int32_t WholeWord(std::string_view word) const;

  // The end of the piece of `word` that starts at `begin`. Encoding the pieces one by one gives the
  // ids of the word. A cut lies between two characters only if no rule joins a token that ends with
  // the first to a token that begins with the second. Then no merge can cross the cut.
  size_t PieceEnd(std::string_view word, size_t begin) const;

  // Appends the ids of a piece, which is valid UTF-8 and not empty.
  void EncodePiece(std::string_view piece, std::vector<int32_t>* ids) const;

 private:
  static constexpr uint32_t kFrequent = 129;  // ASCII and U+2581; their pairs are stored in a table

  void FindJoints(const Model& model);
  bool MayJoin(uint32_t left, uint32_t right) const;
  int32_t IdOf(uint32_t character) const { return character < ids_.size() ? ids_[character] : -1; }
  // The tokens of the bytes of a character; false: one is missing.
  bool AppendBytes(std::string_view character, std::vector<int32_t>* symbols) const;
  void AppendSymbols(std::string_view piece, std::vector<int32_t>* symbols) const;

  Bpe bpe_;
  std::array<int32_t, 256> byte_ids_;
  int32_t unknown_id_;
  bool fuse_unknown_;
  bool all_bytes_;       // every byte has a token, so that no character is unknown
  bool can_cut_ = true;  // no rule joins byte tokens or the unknown token
  absl::flat_hash_map<std::string, int32_t> whole_words_;
  std::vector<int32_t> ids_;  // by code point; -1: not in the vocabulary
  // Joints: (last character of a rule's left token, first character of its right one).
  std::bitset<kFrequent * kFrequent> frequent_joints_;
  absl::flat_hash_set<uint64_t> joints_;  // left << 32 | right
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_MODEL_CHARACTER_BPE_H_
