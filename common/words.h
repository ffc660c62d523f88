// Words that a job, a plan and the files of a model share: closed sets, with their spelling in job
// files, plans, tables and messages. Text becomes a value where it enters and is refused there by
// name; inside, values are compared.
#ifndef COXSWAIN_COMMON_WORDS_H_
#define COXSWAIN_COMMON_WORDS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace coxswain {

// Whose worker runs a plan; decides the layout of buffers.
enum class DeviceKind : uint8_t { kCpu, kCuda };

// The weights of a base: those of its files, or drawn.
enum class BaseInit : uint8_t { kPretrained, kRandom };

// What backward computes again instead of keeping. Each level has that of those before it.
enum class RecomputeLevel : uint8_t {
  kNone,
  kNormSwiglu,  // outputs of norms, the gated product, rows that go to experts
  kExpertOut,   // what experts put out
  kFfn,         // gate and up
  kBlock,       // a segment of blocks from its first input
};

enum class OptimizerKind : uint8_t { kAdamW, kAdamWBf16, kAdamW8bit };

// Of weights and activations, of trained weights, of gradients.
enum class Precision : uint8_t { kFloat32, kBfloat16 };

// In which format frozen linears of blocks are kept; kMxfp4: the frozen experts. kNf4Double: the
// absmax of blocks are quantised too.
enum class Quantization : uint8_t { kNone, kNf4, kNf4Double, kInt8, kMxfp4 };

// The spellings of a set, in the order of its values.
template <typename T>
inline constexpr std::array<const char*, 0> kSpellings = {};
template <>
inline constexpr std::array<const char*, 2> kSpellings<DeviceKind> = {"cpu", "cuda"};
template <>
inline constexpr std::array<const char*, 2> kSpellings<BaseInit> = {"pretrained", "random"};
template <>
inline constexpr std::array<const char*, 5> kSpellings<RecomputeLevel> = {
    "none", "norm_swiglu", "expert_out", "ffn", "block"};
template <>
inline constexpr std::array<const char*, 3> kSpellings<OptimizerKind> = {"adamw", "adamw_bf16",
                                                                         "adamw_8bit"};
template <>
inline constexpr std::array<const char*, 2> kSpellings<Precision> = {"float32", "bfloat16"};
template <>
inline constexpr std::array<const char*, 5> kSpellings<Quantization> = {"", "nf4", "nf4_double",
                                                                        "int8", "mxfp4"};

template <typename T>
concept Spelled = (kSpellings<T>.size() > 0);

template <Spelled T>
constexpr const char* ToString(T word) {
  return kSpellings<T>[static_cast<size_t>(word)];
}

// None: no word of the set is spelled so.
template <Spelled T>
constexpr std::optional<T> FromString(std::string_view text) {
  for (size_t i = 0; i < kSpellings<T>.size(); ++i) {
    if (text == kSpellings<T>[i]) return static_cast<T>(i);
  }
  return std::nullopt;
}

// "cpu, cuda": what a refusal lists.
template <Spelled T>
std::string SpellingsOf() {
  std::string list;
  for (const char* const word : kSpellings<T>) {
    if (!list.empty()) list += ", ";
    list += *word == '\0' ? "\"\"" : word;
  }
  return list;
}

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_WORDS_H_
