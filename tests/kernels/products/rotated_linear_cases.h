// Products whose q and k are turned: extents that both libraries are held to.
#ifndef COXSWAIN_TESTS_KERNELS_PRODUCTS_ROTATED_LINEAR_CASES_H_
#define COXSWAIN_TESTS_KERNELS_PRODUCTS_ROTATED_LINEAR_CASES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/products/rotated_linear.h"

namespace coxswain::kernels {

inline constexpr int64_t kRotatedPositions = 64;

struct RotatedLinearCase {
  RotatedLinearSpec spec;
  int64_t tokens = 0;
  bool biased = false, scaled = false;  // with a bias, with scales of queries

  int64_t columns() const {
    return (spec.rope.num_heads + 2 * spec.rope.num_kv_heads) * spec.rope.head_dim;
  }
  std::string Describe() const {
    const RopeSpec& r = spec.rope;
    return std::to_string(tokens) + " tokens of " + std::to_string(spec.in_features) + ", heads " +
           std::to_string(r.num_heads) + "/" + std::to_string(r.num_kv_heads) + " x " +
           std::to_string(r.head_dim) + ", rotated " + std::to_string(r.rotated) +
           (r.interleaved ? ", interleaved" : "") + (biased ? ", biased" : "") +
           (scaled ? ", scaled" : "");
  }
};

// All of a head, part of it, one pair; widths of models and odd ones; either layout; no token, one,
// and more than a tile has.
inline std::vector<RotatedLinearCase> RotatedLinearCases() {
  const struct {
    int64_t heads, kv_heads, head_dim, rotated, in_features, tokens;
  } shapes[] = {{3, 1, 10, 0, 13, 7},     {3, 1, 10, 6, 13, 7},     {1, 1, 7, 2, 1, 5},
                {3, 1, 10, 0, 13, 0},     {2, 2, 64, 0, 40, 1},     {14, 2, 64, 0, 128, 131},
                {4, 2, 128, 0, 96, 131},  {4, 2, 128, 96, 64, 131}, {2, 1, 96, 0, 72, 67},
                {4, 1, 256, 64, 72, 131}, {2, 1, 80, 32, 64, 131}};
  std::vector<RotatedLinearCase> cases;
  for (const auto& s : shapes) {
    for (int flags = 0; flags < 8; ++flags) {
      RotatedLinearCase c{.spec = {.in_features = s.in_features}, .tokens = s.tokens};
      c.spec.rope = {.num_heads = s.heads,
                     .num_kv_heads = s.kv_heads,
                     .head_dim = s.head_dim,
                     .rotated = s.rotated,
                     .interleaved = (flags & 1) != 0};
      c.biased = (flags & 2) != 0;
      c.scaled = (flags & 4) != 0;
      cases.push_back(c);
    }
  }
  return cases;
}

// Of documents of 23 tokens; the last token has the last position of the table.
inline std::vector<int32_t> RotatedLinearPositions(int64_t tokens) {
  std::vector<int32_t> positions;
  for (int64_t t = 0; t < tokens; ++t) positions.push_back(static_cast<int32_t>(t % 23));
  if (tokens > 1) positions.back() = kRotatedPositions - 1;
  return positions;
}

}  // namespace coxswain::kernels

#endif  // COXSWAIN_TESTS_KERNELS_PRODUCTS_ROTATED_LINEAR_CASES_H_
