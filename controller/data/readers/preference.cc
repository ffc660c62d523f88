#include "controller/data/readers/preference.h"

#include "absl/strings/str_cat.h"

namespace coxswain::data {

absl::Status PreferenceMarks::Refuse() const {
  if (chosen && rejected) {
    return absl::UnimplementedError(
        "\"chosen\" and \"rejected\" make it a preference pair (DPO), which method: dpo, orpo, cpo "
        "or simpo reads; to train on the chosen answers alone, name their field, e.g. {format: "
        "prompt_completion, field_completion: chosen}");
  }
  if (!verdict.empty()) {
    return absl::UnimplementedError(
        absl::StrCat("\"", verdict,
                     "\" makes it a preference record (KTO), which method: kto reads; to train on "
                     "the wanted answers alone, keep those records and leave the field out of "
                     "them"));
  }
  return absl::OkStatus();
}

}  // namespace coxswain::data
