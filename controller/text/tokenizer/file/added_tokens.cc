#include "controller/text/tokenizer/file/added_tokens.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "controller/text/tokenizer/unicode/utf8.h"
#include "controller/text/tokenizer/unicode/white_space.h"

namespace coxswain::data {
namespace {

// \w of Rust's regex crate: Alphabetic, Mark, Decimal_Number, Connector_Punctuation, Join_Control.
// Source: Unicode TR18, annex C.
bool IsWordCharacter(uint32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:  // joiners, and the symbols of Other_Alphabetic
      return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) ||
             (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
             (c >= 0x1F170 && c <= 0x1F189);
  }
}

bool TouchesWord(std::string_view before, std::string_view after) {
  return (!before.empty() && IsWordCharacter(LastCodePoint(before).value)) ||
         (!after.empty() && IsWordCharacter(CodePointAt(after, 0).value));
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  nodes_.push_back({0, kNone, kNone, kNone});
  for (size_t i = 0; i < tokens_.size(); ++i) AddToTrie(static_cast<int32_t>(i));
}

void AddedTokenMatcher::AddToTrie(int32_t token) {
  int32_t node = 0;
  for (const char c : tokens_[token].content) {
    const auto byte = static_cast<unsigned char>(c);
    if (node == 0) starts_[byte] = true;
    int32_t child = Child(node, byte);
    if (child == kNone) {
      child = static_cast<int32_t>(nodes_.size());
      nodes_.push_back({byte, kNone, nodes_[node].first_child, kNone});
      nodes_[node].first_child = child;
    }
    node = child;
  }
  if (nodes_[node].token == kNone) nodes_[node].token = token;
}

int32_t AddedTokenMatcher::Child(int32_t node, unsigned char byte) const {
  int32_t child = nodes_[node].first_child;
  while (child != kNone && nodes_[child].byte != byte) child = nodes_[child].next_sibling;
  return child;
}

size_t AddedTokenMatcher::FindStart(std::string_view text, size_t position) const {
  const int32_t first = nodes_[0].first_child;
  if (first == kNone || position >= text.size()) return text.size();
  if (nodes_[first].next_sibling == kNone) {
    const void* hit =
        std::memchr(text.data() + position, nodes_[first].byte, text.size() - position);
    return hit == nullptr ? text.size() : static_cast<const char*>(hit) - text.data();
  }
  while (position < text.size() && !starts_[static_cast<unsigned char>(text[position])]) ++position;
  return position;
}

int32_t AddedTokenMatcher::LongestAt(std::string_view text, size_t position) const {
  int32_t longest = kNone;
  int32_t node = 0;
  for (size_t i = position; i < text.size(); ++i) {
    node = Child(node, static_cast<unsigned char>(text[i]));
    if (node == kNone) break;
    if (nodes_[node].token != kNone) longest = nodes_[node].token;
  }
  return longest;
}

void AddedTokenMatcher::Split(std::string_view text, const StaysText& stays,
                              std::vector<Piece>* pieces) const {
  size_t done = 0;  // text before it is in `pieces`
  const std::span<const size_t> seams = stays.across;
  auto seam = seams.begin();
  size_t position = FindStart(text, 0);
  while (position < text.size()) {
    const int32_t index = LongestAt(text, position);
    if (index == kNone) {
      position = FindStart(text, position + 1);
      continue;
    }
    const AddedToken& token = tokens_[index];
    size_t begin = position;
    size_t end = begin + token.content.size();
    position = FindStart(text, end);
    while (seam != seams.end() && *seam <= begin) ++seam;
    const bool broken = seam != seams.end() && *seam < end;
    if (broken || (stays.special && token.special && !token.counts)) {
      if (stays.ids != nullptr) stays.ids->push_back(token.id);
      continue;
    }
    if (token.single_word && TouchesWord(text.substr(0, begin), text.substr(end))) continue;
    if (token.lstrip) begin = std::max(begin - TrailingWhiteSpace(text.substr(0, begin)), done);
    if (token.rstrip) end += LeadingWhiteSpace(text.substr(end));
    if (done < begin) pieces->push_back({-1, text.substr(done, begin - done)});
    pieces->push_back({token.id, text.substr(begin, end - begin)});
    done = end;
  }
  if (done < text.size()) pieces->push_back({-1, text.substr(done)});
}

}  // namespace coxswain::data
