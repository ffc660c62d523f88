#include "controller/cli/machine/fits_here.h"

#include "absl/strings/str_cat.h"
#include "common/format.h"

namespace coxswain::cli {

std::string DoesNotFitHere(uint64_t worker_bytes, int64_t workers, uint64_t machine_bytes,
                           uint64_t plannable_bytes) {
  if (worker_bytes <= plannable_bytes) return "";
  const std::string who =
      workers == 1 ? "the worker needs " : absl::StrCat("each of ", workers, " workers needs ");
  return absl::StrCat("does not fit here: ", who, FormatBytes(worker_bytes), ", this machine has ",
                      FormatBytes(machine_bytes), " of memory, of which ",
                      workers == 1 ? "it" : "each", " may plan with ", FormatBytes(plannable_bytes),
                      "; cox plan --memory-gib ", plannable_bytes >> 30, " says what would fit");
}

}  // namespace coxswain::cli
