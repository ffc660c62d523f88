#include "controller/text/tokenizer/model/unigram.h"

#include <algorithm>
#include <cfloat>
#include <utility>

#include "controller/text/tokenizer/unicode/utf8.h"

namespace coxswain::data {
namespace {

constexpr float kUnknownPenalty = 10.0f;
constexpr size_t kBytes = 256;

}  // namespace

Unigram::Unigram(Model model) : unknown_id_(model.unknown_id), byte_ids_(model.byte_ids) {
  float lowest = FLT_MAX;
  float highest = FLT_MIN;
  for (const Piece& piece : model.pieces) {
    if (piece.user_defined) continue;
    lowest = std::min(lowest, piece.score);
    highest = std::max(highest, piece.score);
  }
  unknown_score_ = lowest - kUnknownPenalty;
  std::sort(model.pieces.begin(), model.pieces.end(),
            [](const Piece& a, const Piece& b) { return a.text < b.text; });
  for (const Piece& piece : model.pieces) {
    ids_.push_back(piece.id);
    const auto length = static_cast<float>(piece.text.size());
    scores_.push_back(piece.user_defined ? length * highest - 0.1 : piece.score);
  }
  nodes_.resize(kBytes + 1);
  nodes_[0].parent = 0;
  AddChildren(model.pieces, 0, 0, model.pieces.size(), 0);
}

// The first base at which all places of `bytes`, which rise, are free; nodes with several children
// are laid one behind the other, and single ones into the gaps.
int32_t Unigram::FindBase(const std::vector<uint8_t>& bytes) {
  const auto taken = [this](size_t place) {
    return place < nodes_.size() && nodes_[place].parent >= 0;
  };
  while (taken(first_free_)) ++first_free_;
  for (size_t place = bytes.size() > 1 ? std::max(first_free_, wide_) : first_free_;; ++place) {
    if (place <= bytes[0]) continue;
    const size_t base = place - bytes[0];
    if (std::any_of(bytes.begin(), bytes.end(), [&](uint8_t b) { return taken(base + b); })) {
      continue;
    }
    if (bytes.size() > 1) wide_ = place;
    return static_cast<int32_t>(base);
  }
}

// Below `node` are the pieces begin..end, which share their first `depth` bytes.
void Unigram::AddChildren(const std::vector<Piece>& pieces, int32_t node, size_t begin, size_t end,
                          size_t depth) {
  if (begin < end && pieces[begin].text.size() == depth) {
    nodes_[node].piece = static_cast<int32_t>(begin++);
  }
  if (begin == end) return;
  std::vector<uint8_t> bytes;
  std::vector<size_t> begins;
  for (size_t i = begin; i < end; ++i) {
    const auto byte = static_cast<uint8_t>(pieces[i].text[depth]);
    if (!bytes.empty() && bytes.back() == byte) continue;
    bytes.push_back(byte);
    begins.push_back(i);
  }
  begins.push_back(end);
  const int32_t base = FindBase(bytes);
  nodes_[node].base = base;
  const size_t size = static_cast<size_t>(base) + kBytes;
  if (nodes_.size() < size) nodes_.resize(size);
  for (const uint8_t byte : bytes) nodes_[base + byte].parent = node;
  for (size_t i = 0; i < bytes.size(); ++i) {
    AddChildren(pieces, base + bytes[i], begins[i], begins[i + 1], depth + 1);
  }
}

int32_t Unigram::Child(int32_t node, uint8_t byte) const {
  const int32_t child = nodes_[node].base + byte;
  return nodes_[child].parent == node ? child : -1;
}

// Tries every piece at `start` as the last one of the way to its end. A way is kept in single
// precision and compared with a candidate in double, as the library does.
void Unigram::Extend(std::string_view text, size_t start, std::vector<Step>* steps) const {
  const float before = (*steps)[start].score;
  const size_t character = CodePointAt(text, start).size;
  const auto offer = [&](size_t end, double score, int32_t piece) {
    Step& step = (*steps)[end];
    if (step.start >= 0 && !(score > step.score)) return;
    step = {static_cast<float>(score), static_cast<int32_t>(start), piece};
  };
  bool has_character = false;
  int32_t node = 0;
  for (size_t end = start; end < text.size();) {
    node = Child(node, static_cast<uint8_t>(text[end++]));
    if (node < 0) break;
    const int32_t piece = nodes_[node].piece;
    if (piece < 0) continue;
    offer(end, scores_[piece] + before, piece);
    has_character |= end - start == character;
  }
  if (!has_character) offer(start + character, unknown_score_ + before, -1);
}

void Unigram::Append(std::string_view text, const std::vector<Step>& steps,
                     std::vector<int32_t>* ids) const {
  std::vector<int32_t> ends;
  for (auto end = static_cast<int32_t>(text.size()); end > 0; end = steps[end].start) {
    ends.push_back(end);
  }
  bool after_unknown = false;
  for (auto end = ends.rbegin(); end != ends.rend(); ++end) {
    const Step& step = steps[*end];
    const bool unknown = step.piece < 0;
    if (!unknown) {
      ids->push_back(ids_[step.piece]);
    } else if (byte_ids_[0] >= 0) {
      for (int32_t i = step.start; i < *end; ++i) {
        ids->push_back(byte_ids_[static_cast<uint8_t>(text[i])]);
      }
    } else if (!after_unknown) {
      ids->push_back(unknown_id_);
    }
    after_unknown = unknown;
  }
}

void Unigram::Encode(std::string_view text, std::vector<int32_t>* ids) const {
  std::vector<Step> steps(text.size() + 1);
  for (size_t start = 0; start < text.size(); start += CodePointAt(text, start).size) {
    Extend(text, start, &steps);
  }
  Append(text, steps, ids);
}

}  // namespace coxswain::data
