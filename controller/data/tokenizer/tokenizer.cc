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
  raw_tokens.Split(text, special_as_text, &pieces);
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
  normalized_tokens.Split(text, special_as_text, &pieces);
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
