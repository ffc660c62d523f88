#include "controller/data/tokenizer/tokenizer.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <utility>

#include "common/mutex.h"
#include "common/status_macros.h"
#include "controller/data/tokenizer/added_tokens.h"
#include "controller/data/tokenizer/append_tokens.h"
#include "controller/data/tokenizer/byte_bpe.h"
#include "controller/data/tokenizer/character_bpe.h"
#include "controller/data/tokenizer/read_tokenizer_file.h"
#include "controller/data/tokenizer/token_sizes.h"
#include "controller/data/tokenizer/utf8.h"
#include "controller/data/tokenizer/word_cache.h"
#include "controller/data/tokenizer/workspace_pool.h"

namespace coxswain::data {
namespace {

using Piece = AddedTokenMatcher::Piece;

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

}  // namespace

struct Tokenizer::Impl {
  explicit Impl(TokenizerFile read);

  absl::Status Encode(std::string_view text, std::vector<int32_t>* special_as_text,
                      std::vector<int32_t>* ids) const;
  absl::Status EncodeValid(std::string_view text, std::vector<int32_t>* special_as_text,
                           Workspace* workspace, std::vector<int32_t>* ids) const;
  absl::Status EncodeRaw(std::string_view text, bool is_first,
                         std::vector<int32_t>* special_as_text, Workspace* workspace,
                         std::vector<int32_t>* ids) const;
  absl::Status EncodeNormalized(std::string_view text, bool is_first, Workspace* workspace,
                                std::vector<int32_t>* ids) const;
  absl::Status EncodeMarked(std::string_view text, const TextMarks& marks, Workspace* workspace,
                            std::vector<int32_t>* ids, std::vector<bool>* wanted,
                            std::vector<int32_t>* broken) const;
  absl::Status EncodeRawMarked(std::string_view text, bool is_first, const TextMarks& marks,
                               Workspace* workspace, std::vector<int32_t>* ids,
                               std::vector<bool>* wanted, std::vector<int32_t>* broken) const;
  absl::Status EncodeNormalizedMarked(std::string_view text, bool is_first, const TextMarks& marks,
                                      Workspace* workspace, std::vector<int32_t>* ids,
                                      std::vector<bool>* wanted) const;
  void EncodeCharacters(std::string_view word, WordCache* cache, std::vector<int32_t>* ids) const;

  TokenizerFile file;
  std::optional<ByteBpe> byte_bpe;  // one of the three is the model
  std::optional<CharacterBpe> character_bpe;
  std::optional<Unigram> unigram;
  AddedTokenMatcher raw_tokens;
  AddedTokenMatcher normalized_tokens;
  std::vector<bool> special;  // by id
  std::vector<bool> counts;   // by id
  mutable WorkspacePool workspaces;
};

Tokenizer::Impl::Impl(TokenizerFile read)
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

absl::Status Tokenizer::Impl::Encode(std::string_view text, std::vector<int32_t>* special_as_text,
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

absl::Status Tokenizer::Impl::EncodeValid(std::string_view text,
                                          std::vector<int32_t>* special_as_text,
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

absl::Status Tokenizer::Impl::EncodeRaw(std::string_view text, bool is_first,
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

absl::Status Tokenizer::Impl::EncodeNormalized(std::string_view text, bool is_first,
                                               Workspace* workspace,
                                               std::vector<int32_t>* ids) const {
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

void Tokenizer::Impl::EncodeCharacters(std::string_view word, WordCache* cache,
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

// The bytes of `piece`, a match of `token` in `text`, without the white space that it took along.
ByteRange OwnBytes(std::string_view text, std::string_view piece, std::string_view token) {
  const auto begin = static_cast<size_t>(piece.data() - text.data());
  const size_t at = piece.find(token);
  if (at == std::string_view::npos) return {begin, begin + piece.size()};
  return {begin + at, begin + at + token.size()};
}

absl::Status Tokenizer::Impl::EncodeMarked(std::string_view text, const TextMarks& marks,
                                           Workspace* workspace, std::vector<int32_t>* ids,
                                           std::vector<bool>* wanted,
                                           std::vector<int32_t>* broken) const {
  std::vector<Piece>& pieces = workspace->raw_pieces;
  pieces.clear();
  raw_tokens.Split(text, {.across = marks.seams, .ids = broken}, &pieces);
  for (const Piece& piece : pieces) {
    if (piece.id >= 0) {
      const ByteRange own = OwnBytes(text, piece.text, file.tokens[piece.id]);
      ids->push_back(piece.id);
      wanted->push_back(Touches(marks.ranges, own.begin, own.end));
      continue;
    }
    const auto begin = static_cast<size_t>(piece.text.data() - text.data());
    const TextMarks within = MarksWithin(marks, begin, begin + piece.text.size());
    if (IsUniform(within, piece.text.size())) {
      RETURN_IF_ERROR(EncodeRaw(piece.text, begin == 0, nullptr, workspace, ids));
      wanted->resize(ids->size(), !within.ranges.empty());
    } else {
      RETURN_IF_ERROR(
          EncodeRawMarked(piece.text, begin == 0, within, workspace, ids, wanted, broken));
    }
  }
  return absl::OkStatus();
}

absl::Status Tokenizer::Impl::EncodeRawMarked(std::string_view text, bool is_first,
                                              const TextMarks& marks, Workspace* workspace,
                                              std::vector<int32_t>* ids, std::vector<bool>* wanted,
                                              std::vector<int32_t>* broken) const {
  const Normalizer& normalizer = file.pipeline.normalizer;
  std::string_view normal = text;
  RETURN_IF_ERROR(
      normalizer.Normalize(is_first, &workspace->regex, &workspace->normalizer, &normal));
  TextMarks moved = marks;
  if (normal.data() != text.data() || normal.size() != text.size()) {
    NormalizerScratch scratch;
    absl::Status failed;
    moved = Moved(marks, [&](size_t place) {
      if (place == 0 || place == text.size()) return place == 0 ? 0 : normal.size();
      std::string_view before = text.substr(0, place);
      failed.Update(normalizer.Normalize(is_first, &workspace->regex, &scratch, &before));
      const auto parting =
          std::mismatch(before.begin(), before.end(), normal.begin(), normal.end()).first;
      return static_cast<size_t>(parting - before.begin());
    });
    RETURN_IF_ERROR(failed);
  }
  if (normalized_tokens.empty()) {
    return EncodeNormalizedMarked(normal, is_first, moved, workspace, ids, wanted);
  }
  std::vector<Piece>& pieces = workspace->normalized_pieces;
  pieces.clear();
  normalized_tokens.Split(normal, {.across = moved.seams, .ids = broken}, &pieces);
  for (const Piece& piece : pieces) {
    const auto begin = static_cast<size_t>(piece.text.data() - normal.data());
    const size_t end = begin + piece.text.size();
    if (piece.id >= 0) {
      ids->push_back(piece.id);
      wanted->push_back(Touches(moved.ranges, begin, end));
    } else {
      RETURN_IF_ERROR(EncodeNormalizedMarked(piece.text, is_first && begin == 0,
                                             MarksWithin(moved, begin, end), workspace, ids,
                                             wanted));
    }
  }
  return absl::OkStatus();
}

absl::Status Tokenizer::Impl::EncodeNormalizedMarked(std::string_view text, bool is_first,
                                                     const TextMarks& marks, Workspace* workspace,
                                                     std::vector<int32_t>* ids,
                                                     std::vector<bool>* wanted) const {
  const size_t first = ids->size();
  RETURN_IF_ERROR(EncodeNormalized(text, is_first, workspace, ids));
  TextMarks in_words = marks;
  std::string words;
  const PreTokenizer& pre_tokenizer = file.pipeline.pre_tokenizer;
  if (!pre_tokenizer.keeps_text()) {
    absl::Status failed;
    const auto words_of = [&](size_t end) {
      words.clear();
      failed.Update(pre_tokenizer.ForEachWord(text.substr(0, end), is_first, &workspace->regex,
                                              [&](std::string_view word) { words.append(word); }));
      return words.size();
    };
    in_words = Moved(marks, [&](size_t place) { return place == 0 ? 0 : words_of(place); });
    words_of(text.size());
    RETURN_IF_ERROR(failed);
  }
  size_t at = 0;
  for (const size_t size : TokenSizes(file, std::span(*ids).subspan(first),
                                      pre_tokenizer.keeps_text() ? text : words)) {
    wanted->push_back(Touches(in_words.ranges, at, at + size));
    at += size;
  }
  return absl::OkStatus();
}

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(const std::string& path,
                                                           const std::vector<std::string>& added) {
  ASSIGN_OR_RETURN(TokenizerFile file, ReadTokenizerFile(path));
  RETURN_IF_ERROR(AppendTokens(added, &file));
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::make_unique<Impl>(std::move(file))));
}

absl::Status Tokenizer::Encode(std::string_view text, std::vector<int32_t>* ids) const {
  return impl_->Encode(text, /*special_as_text=*/nullptr, ids);
}

absl::Status Tokenizer::EncodePlain(std::string_view text, std::vector<int32_t>* ids,
                                    std::vector<int32_t>* special_as_text) const {
  std::vector<int32_t> ignored;
  return impl_->Encode(text, special_as_text == nullptr ? &ignored : special_as_text, ids);
}

absl::Status Tokenizer::EncodeMarked(std::string_view text, const TextMarks& marks,
                                     std::vector<int32_t>* ids, std::vector<bool>* wanted,
                                     std::vector<int32_t>* broken) const {
  if (!IsValidUtf8(text)) {
    const TextMarks moved = Moved(
        marks, [&](size_t place) { return ReplaceInvalidUtf8(text.substr(0, place)).size(); });
    return EncodeMarked(ReplaceInvalidUtf8(text), moved, ids, wanted, broken);
  }
  std::unique_ptr<Workspace> workspace = impl_->workspaces.Take();
  absl::Status status = impl_->EncodeMarked(text, marks, workspace.get(), ids, wanted, broken);
  impl_->workspaces.Return(std::move(workspace));
  return status;
}

absl::StatusOr<std::vector<std::vector<int32_t>>> Tokenizer::EncodeBatch(
    std::span<const std::string_view> texts, int threads) const {
  constexpr size_t kChunk = 16;  // texts a thread takes at a time
  std::vector<std::vector<int32_t>> ids(texts.size());
  std::atomic<size_t> next = 0;
  Mutex mu;
  absl::Status first_error;  // guarded by mu
  const auto work = [&] {
    for (size_t begin = next.fetch_add(kChunk); begin < texts.size();
         begin = next.fetch_add(kChunk)) {
      for (size_t i = begin; i < std::min(begin + kChunk, texts.size()); ++i) {
        const absl::Status status = Encode(texts[i], &ids[i]);
        if (status.ok()) continue;
        MutexLock lock(mu);
        first_error.Update(status);
        return;
      }
    }
  };
  const size_t wanted = threads > 0 ? threads : std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::jthread> pool;
  for (size_t i = 1; i < std::min(wanted, (texts.size() + kChunk - 1) / kChunk); ++i) {
    pool.emplace_back(work);
  }
  work();
  pool.clear();  // joins
  RETURN_IF_ERROR(first_error);
  return ids;
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, bool skip_special) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const int32_t id : ids) {
    if (IdToToken(id).empty() || (skip_special && impl_->special[id])) continue;
    const auto other = impl_->file.decoded_as.find(id);
    tokens.emplace_back(other == impl_->file.decoded_as.end() ? IdToToken(id)
                                                              : std::string_view(other->second));
  }
  return impl_->file.pipeline.decoder.Decode(std::move(tokens));
}

std::optional<int32_t> Tokenizer::TokenToId(std::string_view token) const {
  const int32_t id = impl_->file.IdOf(token);
  return id < 0 ? std::nullopt : std::optional<int32_t>(id);
}

std::string_view Tokenizer::IdToToken(int32_t id) const {
  return id >= 0 && id < vocab_size() ? std::string_view(impl_->file.tokens[id])
                                      : std::string_view();
}

bool Tokenizer::IsSpecial(int32_t id) const {
  return id >= 0 && id < vocab_size() && impl_->special[id];
}

bool Tokenizer::Counts(int32_t id) const {
  return id >= 0 && id < vocab_size() && impl_->counts[id];
}

int32_t Tokenizer::eos_id() const { return impl_->file.eos_id; }
int32_t Tokenizer::bos_id() const { return impl_->file.bos_id; }
int32_t Tokenizer::pad_id() const { return impl_->file.pad_id; }
std::span<const std::string> Tokenizer::added() const { return impl_->file.appended; }

int32_t Tokenizer::vocab_size() const { return static_cast<int32_t>(impl_->file.tokens.size()); }
bool Tokenizer::byte_level() const { return impl_->byte_bpe.has_value(); }
std::span<const int32_t> Tokenizer::ids_in_front() const {
  return impl_->file.pipeline.post_processor.front;
}
std::span<const int32_t> Tokenizer::ids_behind() const {
  return impl_->file.pipeline.post_processor.behind;
}
const std::string& Tokenizer::chat_template(std::string_view name) const {
  static const std::string none;
  const auto found = impl_->file.chat_templates.find(name);
  return found == impl_->file.chat_templates.end() ? none : found->second;
}
const std::string& Tokenizer::fingerprint() const { return impl_->file.fingerprint; }

}  // namespace coxswain::data
