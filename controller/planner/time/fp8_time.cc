#include "controller/planner/time/fp8_time.h"

#include "common/plan/buffers/activation_rows.h"
#include "common/plan/buffers/fp8_amaxes.h"
#include "common/plan/fp8_linears.h"
#include "common/plan/storage.h"
#include "controller/planner/time/product_shares.h"

namespace coxswain::planner {
namespace {

// Operations a second over those in bfloat16, operands ready. Source: gpu_bench on one H200,
// fp8_gemm of 8,192 x 3,584 x 37,888 beside the peak of bfloat16, forward and both gradients:
// tensor 1.77 to 1.94, row 1.78 to 1.85, tiles and blocks 1.21 to 1.52; the rows of
// bench/results/h200_fp8.json with the time of operands beside them.
constexpr double kTensorShare = 1.75, kRowShare = 1.6, kBlockShare = 1.45;

double ShareOf(plan::Fp8Recipe recipe) {
  if (recipe == plan::Fp8Recipe::kTensorwise || recipe == plan::Fp8Recipe::kDelayed) {
    return kTensorShare;
  }
  return recipe == plan::Fp8Recipe::kRowwise ? kRowShare : kBlockShare;
}

// Bytes of an element that is read in bfloat16 and written in so many layouts. A scale of more than
// 128 elements is found first, unless it follows from earlier updates or from what the kernel that
// stored the elements found of them (fp8_amaxes.h). That kernel moves no more bytes for it.
double QuantizedBytes(bool scale_is_found, int layouts) {
  return 2.0 * (scale_is_found ? 2 : 1) + layouts;
}
bool FindsScaleOfRows(plan::Fp8Recipe recipe) {
  return recipe == plan::Fp8Recipe::kTensorwise || recipe == plan::Fp8Recipe::kRowwise;
}
bool FindsScaleOfWeights(plan::Fp8Recipe recipe) { return recipe != plan::Fp8Recipe::kBlockwise; }

class Sum {
 public:
  Sum(const plan::Plan& plan, const GpuRates& rates)
      : plan_(plan), rates_(rates), amaxes_(plan::Fp8AmaxesOf(plan)) {}

  void Add(const model::LinearOp& linear, int64_t layer) {
    const auto in = static_cast<double>(linear.in_features);
    const auto out = static_cast<double>(linear.out_features);
    const bool trained = plan::TrainsWeight(plan_, linear, layer);
    const bool kept = trained && plan::IsKeptInFp8(plan_, linear.in, layer);
    const double saved = Saved(in * out);
    const plan::AmaxNumbers known = amaxes_.blocks[static_cast<size_t>(layer)].ReadBy(linear.id);
    AddForward(linear, OfRows(in, known.value, kept ? 2 : 1) - saved);
    if (plan_.trains()) {
      const int uses = trained ? 2 : 1;
      seconds_.backward_token += OfRows(out, known.gradient, uses) - uses * saved;
      if (trained && !kept) seconds_.backward_token += OfRows(in, known.value, 1);
    }
    AddWeight(in * out, trained, known.weight != plan::kNoAmax);
  }

  // Faster by as much as plain linears. The gradient of weights is in the compute dtype.
  void Add(const model::GroupedLinearOp& experts, int64_t layer) {
    const auto rows = static_cast<double>(plan::RowsOf(experts, 1));
    const auto in = static_cast<double>(experts.in_features);
    const auto out = static_cast<double>(experts.out_features);
    const double saved = Saved(rows * in * out) / kGroupedShare;
    AddForward(experts, OfRows(rows * in, plan::kNoAmax, 1) - saved);
    if (plan_.trains()) seconds_.backward_token += OfRows(rows * out, plan::kNoAmax, 1) - saved;
    AddQuantisedWeight(static_cast<double>(experts.experts) * in * out,
                       plan::TrainsWeight(plan_, experts, layer), /*remembered=*/false);
  }

  Fp8Seconds seconds() const { return seconds_; }

 private:
  // By a product of so many multiplications.
  double Saved(double multiplications) const {
    return 2 * multiplications / rates_.product_flops_per_second *
           (1 - 1 / ShareOf(plan_.fp8.recipe));
  }
  template <typename LinearOp>
  void AddForward(const LinearOp& linear, double seconds) {
    seconds_.forward_token += seconds;
    const bool again = plan_.recompute == RecomputeLevel::kBlock ||
                       plan::ComputesAgain(plan_, plan::AgainOf(model::PlainOp(linear)));
    if (again) seconds_.again_token += seconds;
  }
  double Seconds(double elements, bool scale_is_found, int layouts) const {
    return elements * QuantizedBytes(scale_is_found, layouts) / rates_.copy_bytes_per_second;
  }
  // known: the number of their amax.
  double OfRows(double elements, int64_t known, int layouts) const {
    const bool found = FindsScaleOfRows(plan_.fp8.recipe) && known == plan::kNoAmax;
    return Seconds(elements, found, layouts);
  }
  double OfWeights(double elements, int layouts, bool remembered = false) const {
    return Seconds(elements, FindsScaleOfWeights(plan_.fp8.recipe) && !remembered, layouts);
  }
  // A rank reads its part of each weight for the amax, and again for each gather. Backward turns
  // the codes.
  void AddGatheredWeight(double elements, bool trained) {
    const double part = elements / plan_.shard;
    const double gather = Seconds(part, /*scale_is_found=*/false, 1);
    const double bytes = static_cast<double>(plan::StorageBytes(plan::ComputeStorage(plan_), 1));
    if (trained) seconds_.step += part * bytes / rates_.copy_bytes_per_second;
    seconds_.forward_micro_step += gather;
    if (!plan_.trains()) return;
    seconds_.backward_micro_step += gather + 2 * elements / rates_.copy_bytes_per_second;
  }
  // remembered: its amax is found once an update.
  void AddWeight(double elements, bool trained, bool remembered) {
    if (plan::GathersCodes(plan_)) return AddGatheredWeight(elements, trained);
    AddQuantisedWeight(elements, trained, remembered);
  }
  void AddQuantisedWeight(double elements, bool trained, bool remembered) {
    if (plan_.fp8.keeps_weights) {
      if (trained) seconds_.step += OfWeights(elements, 2);
      return;
    }
    if (trained && remembered) seconds_.step += Seconds(elements, /*scale_is_found=*/false, 0);
    seconds_.forward_micro_step += OfWeights(elements, 1, remembered);
    if (plan_.trains()) seconds_.backward_micro_step += OfWeights(elements, 1, remembered);
  }

  const plan::Plan& plan_;
  const GpuRates& rates_;
  const plan::Fp8Amaxes amaxes_;
  Fp8Seconds seconds_;
};

}  // namespace

Fp8Seconds Fp8SecondsOf(const plan::Plan& plan, const GpuRates& rates) {
  if (plan.fp8.recipe == plan::Fp8Recipe::kNone) return {};
  Sum sum(plan, rates);
  const auto add = [&sum](const auto& linear, int64_t layer) { sum.Add(linear, layer); };
  plan::VisitFp8Linears(plan, add);
  plan::VisitFp8Experts(plan, add);
  return sum.seconds();
}

}  // namespace coxswain::planner
