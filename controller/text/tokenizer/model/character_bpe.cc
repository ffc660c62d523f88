#include "controller/text/tokenizer/model/character_bpe.h"

#include <algorithm>
#include <utility>

namespace coxswain::data {
namespace {

constexpr uint32_t kMetaspace = 0x2581;

// The place of a character in the table of frequent pairs; at least 129: it has none.
uint32_t FrequentIndex(uint32_t character) {
  return character < 128 ? character : character == kMetaspace ? 128 : UINT32_MAX;
}

uint64_t JointKey(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }

bool IsOneCharacter(std::string_view token) {
  return !token.empty() && CodePointAt(token, 0).size == token.size();
}

}  // namespace

CharacterBpe::CharacterBpe(Model model)
    : bpe_(model.rules),
      byte_ids_(model.byte_ids),
      unknown_id_(model.unknown_id),
      fuse_unknown_(model.fuse_unknown),
      all_bytes_(std::find(byte_ids_.begin(), byte_ids_.end(), -1) == byte_ids_.end()) {
  for (size_t id = 0; id < model.tokens.size(); ++id) {
    if (!IsOneCharacter(model.tokens[id])) continue;
    const uint32_t character = CodePointAt(model.tokens[id], 0).value;
    if (character >= ids_.size()) ids_.resize(character + 1, -1);
    ids_[character] = static_cast<int32_t>(id);
  }
  FindJoints(model);
  whole_words_ = std::move(model.whole_words);
}

void CharacterBpe::FindJoints(const Model& model) {
  absl::flat_hash_set<int32_t> no_characters(byte_ids_.begin(), byte_ids_.end());
  no_characters.insert(unknown_id_);
  no_characters.erase(-1);
  for (const Bpe::Rule& rule : model.rules) {
    if (no_characters.contains(rule.left) || no_characters.contains(rule.right)) can_cut_ = false;
    const uint32_t left = LastCodePoint(model.tokens[rule.left]).value;
    const uint32_t right = CodePointAt(model.tokens[rule.right], 0).value;
    joints_.insert(JointKey(left, right));
    if (FrequentIndex(left) < kFrequent && FrequentIndex(right) < kFrequent) {
      frequent_joints_.set(FrequentIndex(left) * kFrequent + FrequentIndex(right));
    }
  }
}

bool CharacterBpe::MayJoin(uint32_t left, uint32_t right) const {
  const uint32_t left_index = FrequentIndex(left);
  const uint32_t right_index = FrequentIndex(right);
  if (left_index < kFrequent && right_index < kFrequent &&
      (all_bytes_ || (IdOf(left) >= 0 && IdOf(right) >= 0))) {
    return frequent_joints_.test(left_index * kFrequent + right_index);
  }
  // Unknown characters may fuse with one another and wait for one another.
  if (!all_bytes_ && (IdOf(left) < 0 || IdOf(right) < 0)) return true;
  return joints_.contains(JointKey(left, right));
}

int32_t CharacterBpe::WholeWord(std::string_view word) const {
  if (whole_words_.empty()) return -1;
  const auto found = whole_words_.find(absl::string_view(word.data(), word.size()));
  return found == whole_words_.end() ? -1 : found->second;
}

size_t CharacterBpe::PieceEnd(std::string_view word, size_t begin) const {
  if (!can_cut_) return word.size();
  CodePoint left = CodePointAt(word, begin);
  size_t end = begin + left.size;
  while (end < word.size()) {
    const CodePoint right = CodePointAt(word, end);
    if (!MayJoin(left.value, right.value)) break;
    end += right.size;
    left = right;
  }
  return end;
}

bool CharacterBpe::AppendBytes(std::string_view character, std::vector<int32_t>* symbols) const {
  const size_t before = symbols->size();
  for (const char byte : character) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(byte)];
    if (id < 0) {
      symbols->resize(before);
      return false;
    }
    symbols->push_back(id);
  }
  return true;
}

// An unknown token is written when the next character of the vocabulary comes, behind byte tokens
// between the two: what tokenizers' models/bpe/model.rs does.
void CharacterBpe::AppendSymbols(std::string_view piece, std::vector<int32_t>* symbols) const {
  bool waiting = false;
  for (size_t i = 0; i < piece.size();) {
    const CodePoint c = CodePointAt(piece, i);
    const std::string_view character = piece.substr(i, c.size);
    i += c.size;
    if (const int32_t id = IdOf(c.value); id >= 0) {
      if (waiting) symbols->push_back(unknown_id_);
      waiting = false;
      symbols->push_back(id);
      continue;
    }
    if (AppendBytes(character, symbols) || unknown_id_ < 0) continue;
    if (waiting && !fuse_unknown_) symbols->push_back(unknown_id_);
    waiting = true;
  }
  if (waiting) symbols->push_back(unknown_id_);
}

void CharacterBpe::EncodePiece(std::string_view piece, std::vector<int32_t>* ids) const {
  std::vector<int32_t> symbols;
  symbols.reserve(piece.size());
  AppendSymbols(piece, &symbols);
  if (!symbols.empty()) bpe_.Merge(symbols, ids);
}

}  // namespace coxswain::data
