#include <algorithm>
#include <span>
#include <string>

#include "common/status_macros.h"
#include "controller/text/tokenizer/file/token_sizes.h"
#include "controller/text/tokenizer/text_encoder.h"

namespace coxswain::data {
namespace {

// The bytes of `piece`, a match of `token` in `text`, without the white space that it took along.
ByteRange OwnBytes(std::string_view text, std::string_view piece, std::string_view token) {
  const auto begin = static_cast<size_t>(piece.data() - text.data());
  const size_t at = piece.find(token);
  if (at == std::string_view::npos) return {begin, begin + piece.size()};
  return {begin + at, begin + at + token.size()};
}

}  // namespace

absl::Status TextEncoder::EncodeMarked(std::string_view text, const TextMarks& marks,
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

absl::Status TextEncoder::EncodeRawMarked(std::string_view text, bool is_first,
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

absl::Status TextEncoder::EncodeNormalizedMarked(std::string_view text, bool is_first,
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
  const std::string_view whole = pre_tokenizer.keeps_text() ? text : words;
  const auto& ranges = in_words.ranges;
  const bool to_the_end = !ranges.empty() && ranges.back().end == whole.size();
  const size_t settled = ranges.empty() ? 0 : to_the_end ? ranges.back().begin : ranges.back().end;
  size_t at = 0;
  for (const size_t size : TokenSizes(file, std::span(*ids).subspan(first), whole, settled)) {
    wanted->push_back(Touches(ranges, at, at + size));
    at += size;
  }
  wanted->resize(ids->size(), to_the_end);
  return absl::OkStatus();
}

}  // namespace coxswain::data
