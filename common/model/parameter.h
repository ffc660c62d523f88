// A tensor of a model or its adapter: what it is, its extents, and how it is trained.
#ifndef COXSWAIN_COMMON_MODEL_PARAMETER_H_
#define COXSWAIN_COMMON_MODEL_PARAMETER_H_

#include <cstdint>
#include <string>

namespace coxswain::model {

// What a tensor of the base does. Which op it belongs to, the op says, by the tensor's number.
enum class Kind : uint32_t {
  kEmbedding = 1,          // [vocab, hidden], looked up; the head too where the two are tied
  kHead = 2,               // [vocab, hidden]
  kLinear = 3,             // [out, in] of a linear of a block, which may be adapted or quantised
  kBias = 4,               // [out]
  kNorm = 5,               // [width]
  kNormBias = 6,           // [width]
  kRouter = 7,             // [experts, hidden]
  kRouterBias = 8,         // [experts]
  kExperts = 9,            // [experts, out, in]: one linear of each expert
  kExpertBias = 10,        // [experts, out]
  kRouterCorrection = 11,  // [experts], of who is chosen: no gradient, and float32 in any dtype
  kSinks = 12,             // [query heads], scores of attention without a value
  kLast = kSinks,
};

// Which part of a tensor of the base a parameter is: the tensor itself, or what adapts it. LoRA has
// A [rank, in] and B [out, rank] of a linear or the head; of an embedding A [vocab, rank], whose
// rows are looked up, and B [hidden, rank].
enum class Part : uint32_t {
  kBase = 0,
  kLoraA = 1,
  kLoraB = 2,
  kMagnitude = 3,  // [out], norms of the rows under DoRA
  kLast = kMagnitude,
};

// What a gradient must pass to reach a tensor.
enum class Reach : uint32_t {
  kDirect = 0,
  // Scores of attention: it is 0 where every document has one position.
  kScores = 1,
  // As kScores, and it is 0 where nothing rotates or normalises keys: a softmax does not change
  // when all its scores do.
  kKeyBias = 2,
  kLast = kKeyBias,
};

inline constexpr int32_t kFrozen = -1;
inline constexpr int32_t kNoTensor = -1;

// Numbers of the tensors outside the blocks; those of a block count from 0 in memory order.
inline constexpr int32_t kEmbeddingTensor = 0, kHeadTensor = 1, kFinalNormTensor = 2,
                         kFinalNormBiasTensor = 3;

struct Parameter {
  std::string name;  // Hugging Face name, or PEFT key for an adapter tensor
  Kind kind{};       // of the tensor of the base that this is, or adapts
  Part part = Part::kBase;
  Reach reach = Reach::kDirect;
  int32_t layer = -1;          // -1 outside the blocks
  int32_t tensor = kNoTensor;  // number in its block or outside; an adapter's: of what it adapts
  int32_t packed = kNoTensor;  // first tensor of the matrix or vector that this is a part of
  int64_t batch = 1;           // matrices that lie behind one another: the experts
  int64_t rows = 0;            // out features of all of them; length of a vector
  int64_t cols = 1;            // in features; 1 for a vector
  int32_t unit = 0;            // 0 embedding, 1..L blocks, L+1 final norm and head
  int32_t group = kFrozen;     // index into Plan::groups, kFrozen: no gradient

  int64_t elements() const { return rows * cols; }
  bool trainable() const { return group != kFrozen; }
  bool operator==(const Parameter&) const = default;
};

inline bool IsAdapter(const Parameter& p) { return p.part != Part::kBase; }
inline bool IsLoraA(const Parameter& p) { return p.part == Part::kLoraA; }
inline bool IsLoraB(const Parameter& p) { return p.part == Part::kLoraB; }
inline bool IsMagnitude(const Parameter& p) { return p.part == Part::kMagnitude; }
// Tensors of the base alone.
inline bool IsBase(const Parameter& p, Kind kind) {
  return p.part == Part::kBase && p.kind == kind;
}
// The matrices of blocks that are adapted and quantised.
inline bool IsLinear(const Parameter& p) {
  return IsBase(p, Kind::kLinear) || IsBase(p, Kind::kExperts);
}
inline bool IsEmbedding(const Parameter& p) { return IsBase(p, Kind::kEmbedding); }
inline bool IsHead(const Parameter& p) { return IsBase(p, Kind::kHead); }
inline bool IsRouter(const Parameter& p) {
  return IsBase(p, Kind::kRouter) || IsBase(p, Kind::kRouterBias);
}
// What no gradient reaches, ever.
inline bool IsBuffer(const Parameter& p) { return IsBase(p, Kind::kRouterCorrection); }
// What lora.target_modules may name.
inline bool IsAdaptable(const Parameter& p) {
  return IsBase(p, Kind::kLinear) || IsEmbedding(p) || IsHead(p);
}
inline bool AdaptsEmbedding(const Parameter& p) {
  return IsAdapter(p) && p.kind == Kind::kEmbedding;
}
inline bool IsAdapterOf(const Parameter& p, const Parameter& base) {
  return IsAdapter(p) && p.layer == base.layer && p.tensor == base.tensor;
}

// An adapter begins as nothing: one of its two is zero. That is B, but A of an embedding.
inline bool BeginsAtZero(const Parameter& p) {
  return p.kind == Kind::kEmbedding ? IsLoraA(p) : IsLoraB(p);
}
// PEFT's files hold A of an embedding as [rank, vocab].
inline bool IsTransposedInFiles(const Parameter& p) {
  return p.kind == Kind::kEmbedding && IsLoraA(p);
}

// B of experts [experts out, rank] lies by expert in memory; PEFT's files hold [out, rank experts],
// whose column of rank j and expert e is j experts + e.
inline bool IsRankMajorInFiles(const Parameter& p) {
  return p.kind == Kind::kExperts && IsLoraB(p);
}

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_PARAMETER_H_
