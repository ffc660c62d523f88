// A counting sort by one thread: count, sum, place. 20 bytes per pair.
#include "kernels/experts/sort_by_expert.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/cpu/check.h"
#include "kernels/cpu/experts/expert_checks.h"

namespace coxswain::kernels {

bool SortByExpertSupports(const SortByExpertSpec& spec) {
  return spec.experts > 0 && spec.experts < std::numeric_limits<int32_t>::max() && spec.chosen > 0;
}

int64_t SortByExpertWorkspaceBytes(const SortByExpertSpec& spec, int64_t tokens) { return 0; }

void SortByExpert(const SortByExpertArgs& args, Stream* stream) {
  cpu::RequireSupported(SortByExpertSupports(args.spec), "SortByExpert");
  const int64_t experts = args.spec.experts, pairs = args.tokens * args.spec.chosen;
  if (pairs > std::numeric_limits<int32_t>::max()) {
    throw std::invalid_argument("SortByExpert: " + std::to_string(pairs) +
                                " pairs, places are below 2147483648");
  }
  cpu::RequireExperts(args.ids, args.tokens, args.spec.chosen, experts, "SortByExpert");
  std::fill_n(args.counts, experts, 0);
  for (int64_t p = 0; p < pairs; ++p) {
    if (args.ids[p] >= 0) ++args.counts[args.ids[p]];
  }
  args.offsets[0] = 0;
  for (int64_t e = 0; e < experts; ++e) args.offsets[e + 1] = args.offsets[e] + args.counts[e];
  std::fill_n(args.counts, experts, 0);
  for (int64_t p = 0; p < pairs; ++p) {
    const int32_t expert = args.ids[p];
    const int32_t place = expert < 0 ? -1 : args.offsets[expert] + args.counts[expert]++;
    args.places[p] = place;
    if (place >= 0) args.order[place] = static_cast<int32_t>(p);
  }
  std::fill(args.order + args.offsets[experts], args.order + pairs, -1);
}

}  // namespace coxswain::kernels
