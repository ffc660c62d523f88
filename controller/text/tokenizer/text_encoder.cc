#include "controller/text/tokenizer/text_encoder.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/status_macros.h"
#include "controller/text/tokenizer/unicode/utf8.h"

namespace coxswain::data {
namespace {

// The added tokens matched before the normalizer, or (normalized) those matched after it.
std::vector<AddedToken> SelectAdded(const TokenizerFile& file, bool normalized) {
  std::vector<AddedToken> selected;
  for (const bool special : {true, false}) {  // tokenizers lists special ones first
    for (const AddedToken& token : file.added) {
      if (token.normalized == normalized && token.special == special) selected.push_back(token);
    }
  }
  return selected;
}

// Appends what encode(piece) appends, which is kept for short pieces.
template <typename EncodePiece>
void EncodeCached(std::string_view piece, WordCache* cache, std::vector<int32_t>* ids,
                  EncodePiece encode) {
  if (piece.size() > WordCache::kMaxWordBytes) {
    encode(piece);
    return;
  }
  const WordCache::Key key = WordCache::MakeKey(piece);
  if (cache->Find(key, ids)) return;
  const size_t before = ids->size();
  encode(piece);
  cache->Insert(key, ids->data() + before, ids->size() - before);
}

}  // namespace

TextEncoder::TextEncoder(TokenizerFile read)
    : file(std::move(read)),
      raw_tokens(SelectAdded(file, false)),
      normalized_tokens(SelectAdded(file, true)),
      special(file.tokens.size()),
      counts(file.tokens.size()) {
  if (file.unigram.has_value()) {
    unigram.emplace(
        Unigram::Model{*std::exchange(file.unigram, std::nullopt), file.unknown_id, file.byte_ids});
  } else if (file.byte_level) {
    byte_bpe.emplace(file.byte_ids, file.rules, std::move(file.whole_words));
  } else {
    character_bpe.emplace(CharacterBpe::Model{file.tokens, std::move(file.rules), file.byte_ids,
                                              file.unknown_id, file.fuse_unknown,
                                              std::move(file.whole_words)});
  }
  file.rules = {};
  for (const AddedToken& token : file.added) {
    if (token.special) special[token.id] = true;
    if (token.special && token.counts) counts[token.id] = true;
  }
}

absl::Status TextEncoder::Encode(std::string_view text, std::vector<int32_t>* special_as_text,
                                 std::vector<int32_t>* ids) const {
  std::string repaired;
  if (!IsValidUtf8(text)) {
    repaired = ReplaceInvalidUtf8(text);
    text = repaired;
  }
  std::unique_ptr<Workspace> workspace = workspaces.Take();
  absl::Status status = EncodeValid(text, special_as_text, workspace.get(), ids);
  workspaces.Return(std::move(workspace));
  return status;
}

absl::Status TextEncoder::EncodeValid(std::string_view text, std::vector<int32_t>* special_as_text,
                                      Workspace* workspace, std::vector<int32_t>* ids) const {
  std::vector<Piece>& pieces = workspace->raw_pieces;
  pieces.clear();
  raw_tokens.Split(text, {.special = special_as_text != nullptr, .ids = special_as_text}, &pieces);
  for (const Piece& piece : pieces) {
    if (piece.id >= 0) {
      ids->push_back(piece.id);
    } else {
      const bool is_first = piece.text.data() == text.data();
      RETURN_IF_ERROR(EncodeRaw(piece.text, is_first, special_as_text, workspace, ids));
    }
  }
  return absl::OkStatus();
}

absl::Status TextEncoder::EncodeRaw(std::string_view text, bool is_first,
                                    std::vector<int32_t>* special_as_text, Workspace* workspace,
                                    std::vector<int32_t>* ids) const {
  RETURN_IF_ERROR(file.pipeline.normalizer.Normalize(is_first, &workspace->regex,
                                                     &workspace->normalizer, &text));
  if (normalized_tokens.empty()) return EncodeNormalized(text, is_first, workspace, ids);
  std::vector<Piece>& pieces = workspace->normalized_pieces;
  pieces.clear();
  normalized_tokens.Split(text, {.special = special_as_text != nullptr, .ids = special_as_text},
                          &pieces);
  for (const Piece& piece : pieces) {
    if (piece.id >= 0) {
      ids->push_back(piece.id);
    } else {
      const bool begins = is_first && piece.text.data() == text.data();
      RETURN_IF_ERROR(EncodeNormalized(piece.text, begins, workspace, ids));
    }
  }
  return absl::OkStatus();
}

absl::Status TextEncoder::EncodeNormalized(std::string_view text, bool is_first,
                                           Workspace* workspace, std::vector<int32_t>* ids) const {
  const PreTokenizer& pre_tokenizer = file.pipeline.pre_tokenizer;
  WordCache* cache = &workspace->cache;
  if (unigram.has_value()) {
    return pre_tokenizer.ForEachWord(text, is_first, &workspace->regex,
                                     [&](std::string_view word) { unigram->Encode(word, ids); });
  }
  if (!byte_bpe.has_value()) {
    return pre_tokenizer.ForEachWord(text, is_first, &workspace->regex, [&](std::string_view word) {
      EncodeCharacters(word, cache, ids);
    });
  }
  const auto encode = [&](std::string_view word) { byte_bpe->EncodeWord(word, ids); };
  return pre_tokenizer.ForEachWord(text, is_first, &workspace->regex, [&](std::string_view word) {
    EncodeCached(word, cache, ids, encode);
  });
}

void TextEncoder::EncodeCharacters(std::string_view word, WordCache* cache,
                                   std::vector<int32_t>* ids) const {
  if (const int32_t id = character_bpe->WholeWord(word); id >= 0) {
    ids->push_back(id);
    return;
  }
  const auto encode = [&](std::string_view piece) { character_bpe->EncodePiece(piece, ids); };
  for (size_t begin = 0; begin < word.size();) {
    const size_t end = character_bpe->PieceEnd(word, begin);
    EncodeCached(word.substr(begin, end - begin), cache, ids, encode);
    begin = end;
  }
}

}  // namespace coxswain::data
