// A tensor of a model or its adapter: what it is, its extents, and how it is trained.
#ifndef COXSWAIN_COMMON_MODEL_PARAMETER_H_
#define COXSWAIN_COMMON_MODEL_PARAMETER_H_

#include <cstdint>
#include <string>

namespace coxswain::model {

// What a tensor is in the model. The engine finds tensors by (role, layer), never by name.
enum class Role : uint32_t {
  kNone = 0,       // no tensor
  kEmbedding = 1,  // [vocab, hidden]
  kInputNorm = 2,  // [hidden]
  kQ = 3,          // [heads*head_dim, hidden]; kQ, kK, kV of a layer are adjacent in the table
  kK = 4,          // [kv_heads*head_dim, hidden]
  kV = 5,          // [kv_heads*head_dim, hidden]
  kQBias = 6,      // biases: adjacent in the table likewise
  kKBias = 7,
  kVBias = 8,
  kQNorm = 9,   // [head_dim]
  kKNorm = 10,  // [head_dim]
  kO = 11,      // [hidden, heads*head_dim]
  kOBias = 12,
  kPostAttentionNorm = 13,  // [hidden], of what the MLP reads
  kGate = 14,               // [intermediate, hidden]; kGate, kUp adjacent in the table
  kUp = 15,                 // [intermediate, hidden]
  kDown = 16,               // [hidden, intermediate]
  kGateBias = 17,
  kUpBias = 18,
  kDownBias = 19,
  kFinalNorm = 20,  // [hidden]
  kLmHead = 21,     // [vocab, hidden]; absent when tied
  kQkv = 22,        // [(heads + 2 kv_heads)*head_dim, hidden]: q, k, v as one tensor
  kQkvBias = 23,
  kGateUp = 24,  // [2 intermediate, hidden]: gate and up as one tensor
  kGateUpBias = 25,
  kAttentionNorm = 26,  // [hidden], of what attention puts out
  kMlpNorm = 27,        // [hidden], of what the MLP puts out
  kInputNormBias = 28,  // [hidden]
  kPostAttentionNormBias = 29,
  kFinalNormBias = 30,
  kLast = kFinalNormBias,
  // LoRA A [rank, in] and B [out, rank] of the linear with one of the roles kLinears or kLmHead; of
  // kEmbedding A [vocab, rank], whose rows are looked up, and B [hidden, rank]:
  kLoraA = 0x100,          // kLoraA | base role
  kLoraB = 0x200,          // kLoraB | base role
  kLoraMagnitude = 0x400,  // kLoraMagnitude | base role: [out], norms of the rows under DoRA
};
constexpr Role LoraA(Role base) {
  return static_cast<Role>(static_cast<uint32_t>(Role::kLoraA) | static_cast<uint32_t>(base));
}
constexpr Role LoraB(Role base) {
  return static_cast<Role>(static_cast<uint32_t>(Role::kLoraB) | static_cast<uint32_t>(base));
}

constexpr Role LoraMagnitude(Role base) {
  return static_cast<Role>(static_cast<uint32_t>(Role::kLoraMagnitude) |
                           static_cast<uint32_t>(base));
}

// The linears of a block, whose roles LoraA and its like take.
inline constexpr Role kLinears[] = {Role::kQ,  Role::kK,    Role::kV,   Role::kO,     Role::kGate,
                                    Role::kUp, Role::kDown, Role::kQkv, Role::kGateUp};
constexpr bool IsLinear(Role role) {
  for (const Role linear : kLinears) {
    if (role == linear) return true;
  }
  return false;
}

constexpr bool IsNormWeight(Role role) {
  return role == Role::kInputNorm || role == Role::kPostAttentionNorm || role == Role::kFinalNorm ||
         role == Role::kQNorm || role == Role::kKNorm || role == Role::kAttentionNorm ||
         role == Role::kMlpNorm;
}

// Which tensor of an adapter a role is: A, B, or the magnitudes of DoRA.
constexpr bool HasRoleBit(Role role, Role bit) {
  return (static_cast<uint32_t>(role) & static_cast<uint32_t>(bit)) != 0;
}
constexpr bool IsLoraA(Role role) { return HasRoleBit(role, Role::kLoraA); }
constexpr bool IsLoraB(Role role) { return HasRoleBit(role, Role::kLoraB); }
constexpr bool IsMagnitude(Role role) { return HasRoleBit(role, Role::kLoraMagnitude); }
constexpr bool IsAdapter(Role role) { return IsLoraA(role) || IsLoraB(role) || IsMagnitude(role); }

// An adapter begins as nothing: one of its two is zero. That is B, but A of an embedding.
constexpr bool BeginsAtZero(Role role) {
  return role == LoraA(Role::kEmbedding) || (IsLoraB(role) && role != LoraB(Role::kEmbedding));
}
// PEFT's files hold A of an embedding as [rank, vocab].
constexpr bool IsTransposedInFiles(Role role) { return role == LoraA(Role::kEmbedding); }

// The whole of which a tensor is a part: the parts of a layer are one matrix or vector to a
// product, adjacent in the table and in memory. kNone: a tensor of its own.
constexpr Role PackOf(Role role) {
  if (IsLoraA(role)) {
    const auto base = static_cast<uint32_t>(role) & ~static_cast<uint32_t>(Role::kLoraA);
    const Role pack = PackOf(static_cast<Role>(base));
    return pack == Role::kNone ? pack : LoraA(pack);
  }
  switch (role) {
    case Role::kQ:
    case Role::kK:
    case Role::kV:
      return Role::kQkv;
    case Role::kQBias:
    case Role::kKBias:
    case Role::kVBias:
      return Role::kQkvBias;
    case Role::kGate:
    case Role::kUp:
      return Role::kGateUp;
    case Role::kGateBias:
    case Role::kUpBias:
      return Role::kGateUpBias;
    default:
      return Role::kNone;
  }
}

inline constexpr int32_t kFrozen = -1;

struct Parameter {
  std::string name;  // Hugging Face name, or PEFT key for an adapter tensor
  Role role{};
  int32_t layer = -1;       // -1 outside the blocks
  int64_t rows = 0;         // out features; length of a vector
  int64_t cols = 1;         // in features; 1 for a vector
  int32_t unit = 0;         // 0 embedding, 1..L blocks, L+1 final norm and head
  int32_t group = kFrozen;  // index into Plan::groups, kFrozen: no gradient

  int64_t elements() const { return rows * cols; }
  bool trainable() const { return group != kFrozen; }
  bool operator==(const Parameter&) const = default;
};

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_PARAMETER_H_
