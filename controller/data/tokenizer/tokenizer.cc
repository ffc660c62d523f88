#include "controller/data/tokenizer/tokenizer.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "controller/data/tokenizer/added_tokens.h"
#include "controller/data/tokenizer/bpe.h"
#include "controller/data/tokenizer/nfc.h"
#include "controller/data/tokenizer/pre_tokenizer.h"
#include "controller/data/tokenizer/tokenizer_file.h"
#include "controller/data/tokenizer/utf8.h"
#include "controller/data/tokenizer/word_cache.h"

namespace coxswain::data {
namespace {

using Piece = AddedTokenMatcher::Piece;

// What one running Encode needs for itself. Results never depend on which one it gets.
struct Workspace {
  RegexScratch regex;
  WordCache cache;
  std::string normalized;
  std::vector<Piece> raw_pieces;
  std::vector<Piece> normalized_pieces;
};

// As many workspaces as there were Encodes at one time.
class WorkspacePool {
 public:
  std::unique_ptr<Workspace> Take() {
    {
      MutexLock lock(mu_);
      if (!idle_.empty()) {
        std::unique_ptr<Workspace> workspace = std::move(idle_.back());
        idle_.pop_back();
        return workspace;
      }
    }
    return std::make_unique<Workspace>();
  }

  void Return(std::unique_ptr<Workspace> workspace) {
    MutexLock lock(mu_);
    idle_.push_back(std::move(workspace));
  }

 private:
  Mutex mu_;
  std::vector<std::unique_ptr<Workspace>> idle_ ABSL_GUARDED_BY(mu_);
};

absl::StatusOr<PreTokenizer> MakePreTokenizer(const PipelineSpec& spec) {
  PreTokenizer pre_tokenizer;
  for (size_t i = 0; i <= spec.splits.size(); ++i) {
    if (static_cast<int>(i) == spec.prefix_space_stage) pre_tokenizer.AddPrefixSpace();
    if (i == spec.splits.size()) break;
    const SplitSpec& split = spec.splits[i];
    ASSIGN_OR_RETURN(std::unique_ptr<SplitRegex> regex,
                     split.literal ? SplitRegex::CompileLiteral(split.pattern)
                                   : SplitRegex::Compile(split.pattern));
    pre_tokenizer.AddStage({std::move(regex), split.drop_matches, split.drop_gaps});
  }
  return pre_tokenizer;
}

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
  Impl(TokenizerFile read, PreTokenizer splitter)
      : file(std::move(read)),
        bpe(file.byte_ids, file.rules, std::move(file.whole_words)),
        pre_tokenizer(std::move(splitter)),
        raw_tokens(SelectAdded(file, false)),
        normalized_tokens(SelectAdded(file, true)),
        special(file.tokens.size()) {
    for (const AddedToken& token : file.added) {
      if (token.special) special[token.id] = true;
    }
    file.rules = {};
  }

  absl::Status Encode(std::string_view text, bool special_is_text, std::vector<int32_t>* ids) const;
  absl::Status EncodeValid(std::string_view text, bool special_is_text, Workspace* workspace,
                           std::vector<int32_t>* ids) const;
  absl::Status EncodeRaw(std::string_view text, bool special_is_text, Workspace* workspace,
                         std::vector<int32_t>* ids) const;
  absl::Status EncodeNormalized(std::string_view text, Workspace* workspace,
                                std::vector<int32_t>* ids) const;
  void EncodeWord(std::string_view word, WordCache* cache, std::vector<int32_t>* ids) const;

  TokenizerFile file;
  Bpe bpe;
  PreTokenizer pre_tokenizer;
  AddedTokenMatcher raw_tokens;
  AddedTokenMatcher normalized_tokens;
  std::vector<bool> special;  // by id
  mutable WorkspacePool workspaces;
};

absl::Status Tokenizer::Impl::Encode(std::string_view text, bool special_is_text,
                                     std::vector<int32_t>* ids) const {
  std::string repaired;
  if (!IsValidUtf8(text)) {
    repaired = ReplaceInvalidUtf8(text);
    text = repaired;
  }
  std::unique_ptr<Workspace> workspace = workspaces.Take();
  absl::Status status = EncodeValid(text, special_is_text, workspace.get(), ids);
  workspaces.Return(std::move(workspace));
  return status;
}

absl::Status Tokenizer::Impl::EncodeValid(std::string_view text, bool special_is_text,
                                          Workspace* workspace, std::vector<int32_t>* ids) const {
  std::vector<Piece>& pieces = workspace->raw_pieces;
  pieces.clear();
  raw_tokens.Split(text, special_is_text, &pieces);
  for (const Piece& piece : pieces) {
    if (piece.id >= 0) {
      ids->push_back(piece.id);
    } else {
      RETURN_IF_ERROR(EncodeRaw(piece.text, special_is_text, workspace, ids));
    }
  }
  return absl::OkStatus();
}

absl::Status Tokenizer::Impl::EncodeRaw(std::string_view text, bool special_is_text,
                                        Workspace* workspace, std::vector<int32_t>* ids) const {
  if (file.pipeline.nfc) text = NormalizeNfc(text, &workspace->normalized);
  if (normalized_tokens.empty()) return EncodeNormalized(text, workspace, ids);
  std::vector<Piece>& pieces = workspace->normalized_pieces;
  pieces.clear();
  normalized_tokens.Split(text, special_is_text, &pieces);
  for (const Piece& piece : pieces) {
    if (piece.id >= 0) {
      ids->push_back(piece.id);
    } else {
      RETURN_IF_ERROR(EncodeNormalized(piece.text, workspace, ids));
    }
  }
  return absl::OkStatus();
}

absl::Status Tokenizer::Impl::EncodeNormalized(std::string_view text, Workspace* workspace,
                                               std::vector<int32_t>* ids) const {
  return pre_tokenizer.ForEachWord(text, &workspace->regex, [&](std::string_view word) {
    EncodeWord(word, &workspace->cache, ids);
  });
}

void Tokenizer::Impl::EncodeWord(std::string_view word, WordCache* cache,
                                 std::vector<int32_t>* ids) const {
  if (word.size() > WordCache::kMaxWordBytes) {
    bpe.EncodeWord(word, ids);
    return;
  }
  const WordCache::Key key = WordCache::MakeKey(word);
  if (cache->Find(key, ids)) return;
  const size_t before = ids->size();
  bpe.EncodeWord(word, ids);
  cache->Insert(key, ids->data() + before, ids->size() - before);
}

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(const std::string& path) {
  ASSIGN_OR_RETURN(TokenizerFile file, ReadTokenizerFile(path));
  absl::StatusOr<PreTokenizer> pre_tokenizer = MakePreTokenizer(file.pipeline);
  if (!pre_tokenizer.ok()) {
    return absl::Status(pre_tokenizer.status().code(),
                        absl::StrCat(file.path, ": ", pre_tokenizer.status().message()));
  }
  return std::unique_ptr<Tokenizer>(
      new Tokenizer(std::make_unique<Impl>(std::move(file), *std::move(pre_tokenizer))));
}

absl::Status Tokenizer::Encode(std::string_view text, std::vector<int32_t>* ids) const {
  return impl_->Encode(text, /*special_is_text=*/false, ids);
}

absl::Status Tokenizer::EncodePlain(std::string_view text, std::vector<int32_t>* ids) const {
  return impl_->Encode(text, /*special_is_text=*/true, ids);
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
  std::string bytes;
  for (const int32_t id : ids) {
    if (IdToToken(id).empty() || (skip_special && impl_->special[id])) continue;
    bytes += impl_->file.bytes[id];
  }
  return IsValidUtf8(bytes) ? bytes : ReplaceInvalidUtf8(bytes);
}

std::optional<int32_t> Tokenizer::TokenToId(std::string_view token) const {
  const auto found = impl_->file.ids.find(absl::string_view(token.data(), token.size()));
  if (found == impl_->file.ids.end()) return std::nullopt;
  return found->second;
}

std::string_view Tokenizer::IdToToken(int32_t id) const {
  return id >= 0 && id < vocab_size() ? std::string_view(impl_->file.tokens[id])
                                      : std::string_view();
}

bool Tokenizer::IsSpecial(int32_t id) const {
  return id >= 0 && id < vocab_size() && impl_->special[id];
}

int32_t Tokenizer::eos_id() const { return impl_->file.eos_id; }
int32_t Tokenizer::bos_id() const { return impl_->file.bos_id; }
int32_t Tokenizer::pad_id() const { return impl_->file.pad_id; }
int32_t Tokenizer::vocab_size() const { return static_cast<int32_t>(impl_->file.tokens.size()); }
const std::string& Tokenizer::chat_template() const { return impl_->file.chat_template; }
const std::string& Tokenizer::fingerprint() const { return impl_->file.fingerprint; }

}  // namespace coxswain::data
