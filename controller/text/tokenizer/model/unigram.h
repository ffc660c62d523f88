// The unigram language model of SentencePiece: it finds the pieces with the highest sum of scores.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_MODEL_UNIGRAM_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_MODEL_UNIGRAM_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace coxswain::data {

class Unigram {
 public:
  struct Piece {
    std::string text;
    int32_t id;
    float score;        // log probability
    bool user_defined;  // always taken: its score grows with its length
  };
  struct Model {
    std::vector<Piece> pieces;            // without control, unknown and byte pieces
    int32_t unknown_id = -1;              // for characters without a piece
    std::array<int32_t, 256> byte_ids{};  // used instead of the unknown piece; -1: none
  };

  explicit Unigram(Model model);

  // Appends the ids of `text`, which is valid UTF-8 and not empty. O(length x longest piece).
  // Neighbouring unknown characters are one token, or their bytes. Source: Kudo 2018 (the best
  // segmentation); order and single precision as in SentencePiece's unigram_model.cc.
  void Encode(std::string_view text, std::vector<int32_t>* ids) const;

 private:
  // Trie over bytes as a double array: the child of node n at byte b lies at nodes_[n].base + b,
  // if that node's parent is n. Source: Aoe, "An efficient digital search algorithm by using a
  // double-array structure", 1989.
  struct Node {
    int32_t base = 0;
    int32_t parent = -1;  // -1: the place is free
    int32_t piece = -1;   // index into scores_ and ids_
  };
  // The best segmentation up to a position of the text.
  struct Step {
    float score = 0;
    int32_t start = -1;  // start of its last piece; -1: no segmentation ends here
    int32_t piece = -1;  // -1: unknown
  };

  void AddChildren(const std::vector<Piece>& pieces, int32_t node, size_t begin, size_t end,
                   size_t depth);
  int32_t FindBase(const std::vector<uint8_t>& bytes);
  int32_t Child(int32_t node, uint8_t byte) const;
  void Extend(std::string_view text, size_t start, std::vector<Step>* steps) const;
  void Append(std::string_view text, const std::vector<Step>& steps,
              std::vector<int32_t>* ids) const;

  std::vector<Node> nodes_;
  size_t first_free_ = 1;  // while the trie is built: places below it are taken
  size_t wide_ = 1;        // ... where the last node with several children was laid
  std::vector<int32_t> ids_;
  std::vector<double> scores_;
  float unknown_score_ = 0;
  int32_t unknown_id_;
  std::array<int32_t, 256> byte_ids_;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_MODEL_UNIGRAM_H_
