#include "controller/text/tokenizer/tokenizer.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "common/mutex.h"
#include "common/status_macros.h"
#include "controller/text/tokenizer/append_tokens.h"
#include "controller/text/tokenizer/text_encoder.h"
#include "controller/text/tokenizer/unicode/utf8.h"

namespace coxswain::data {
struct Tokenizer::Impl : TextEncoder {
  using TextEncoder::TextEncoder;
};

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
