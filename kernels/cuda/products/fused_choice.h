// One launch or several: the faster, by the table.
#ifndef COXSWAIN_KERNELS_CUDA_PRODUCTS_FUSED_CHOICE_H_
#define COXSWAIN_KERNELS_CUDA_PRODUCTS_FUSED_CHOICE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/cuda/products/gemm_table.h"
#include "kernels/cuda/products/gemm_tuning.h"
#include "kernels/cuda/time_in_turns.h"

namespace coxswain::kernels::cuda {

// The table's choice; one is made if there is none: by times where tuning is on, else the one
// launch. Alternatives may be launched any number of times.
template <typename Key>
bool ChooseFused(const Key& key, const Alternative& fused, const Alternative& plain,
                 Stream* stream) {
  GemmChoices& choices = GemmChoices::Instance();
  const bool tune = MayTune(stream);
  const std::optional<FusedChoice> known = choices.Find(key);
  if (known && (known->settled || !tune)) return known->fused;
  FusedChoice choice{.fused = true};
  if (tune) {
    const std::vector<double> times = TimeInTurns({plain, fused}, stream);
    choice = {.fused = times[1] < kWorthwhile * times[0],
              .plain_microseconds = times[0],
              .fused_microseconds = times[1],
              .settled = true};
  }
  return choices.Remember(key, choice).fused;
}

// Whether the copy engine and vectors of 16 bytes take them; null is.
template <typename... Pointers>
bool AllAligned(const Pointers*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

// Launches the one that the table names where `fuses`, else `plain`.
template <typename Key, typename Fused, typename Plain>
void LaunchFaster(bool fuses, const Key& key, const Fused& fused, const Plain& plain,
                  Stream* stream) {
  const auto alternative = [](const auto& launch) -> Alternative {
    return [&launch] {
      launch();
      return true;
    };
  };
  if (fuses && ChooseFused(key, alternative(fused), alternative(plain), stream)) {
    fused();
  } else {
    plain();
  }
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_PRODUCTS_FUSED_CHOICE_H_
