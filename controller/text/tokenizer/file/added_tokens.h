// Finds added tokens ("<|im_end|>") in text, as tokenizers' added_vocabulary.rs does.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_FILE_ADDED_TOKENS_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_FILE_ADDED_TOKENS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace coxswain::data {

struct AddedToken {
  int32_t id = -1;
  std::string content;
  bool special = false;
  bool counts = false;       // special, but a token in plain text too
  bool normalized = false;   // matched after the normalizer, not before it
  bool lstrip = false;       // also takes white space before it
  bool rstrip = false;       // also takes white space after it
  bool single_word = false;  // only where no word character touches it
};

// Matches that stay text.
struct StaysText {
  bool special = false;                 // matches of special tokens, except tokens that count
  std::span<const size_t> across = {};  // matches across one of these places, ascending
  std::vector<int32_t>* ids = nullptr;  // gets the ids of all these tokens; may be null
};

class AddedTokenMatcher {
 public:
  // A stretch of text: an added token, or ordinary text when id < 0.
  struct Piece {
    int32_t id;
    std::string_view text;
  };

  // Of two tokens with the same content the first is used.
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }

  // Cuts `text` (valid UTF-8) at leftmost-longest matches and appends the pieces. No text piece is
  // empty. Tokens inside a match that stays text stay text too.
  void Split(std::string_view text, const StaysText& stays, std::vector<Piece>* pieces) const;

 private:
  static constexpr int32_t kNone = -1;
  // Trie over bytes; children of a node are a linked list.
  struct Node {
    unsigned char byte;
    int32_t first_child;
    int32_t next_sibling;
    int32_t token;  // index into tokens_ when a content ends here
  };

  void AddToTrie(int32_t token);
  int32_t Child(int32_t node, unsigned char byte) const;
  size_t FindStart(std::string_view text, size_t position) const;
  // Index of the longest token at `position`, or kNone.
  int32_t LongestAt(std::string_view text, size_t position) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;
  bool starts_[256] = {};  // first bytes of the contents
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_FILE_ADDED_TOKENS_H_
