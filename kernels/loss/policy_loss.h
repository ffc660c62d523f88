// Losses of reinforcement learning from text: functions of the log-probability l of each scored
// token, its advantage A, its log-probability o when it was drawn, and, where there is a KL term,
// its log-probability q under a reference. A document has n scored rows, one behind the other in
// the list of rows. With r the ratio exp(l - o) of a row, or, where the ratio is of sequences, the
// exp(mean over the document's rows of l - o), and d the delta (no d: infinity):
//   kImportance  -r A
//   kClip        -min(min(r, d) A, clamp(r, 1 - epsilon_low, 1 + epsilon_high) A)
//   kCispo       -min(r, epsilon_high) A l, in which the minimum counts as a constant
//   KL term, added to each: kl_weight (exp(q - l) - (q - l) - 1)
// The loss of a step is the sum over rows, of which kSequences takes the mean in each document,
// over a denominator of the global batch: the gradient scale of the head.
//
// Derivatives. Of a function of r, f' = df / dlog r = r df / dr. A row's own ratio gives df/dl =
// f'. With log r the mean over n rows, a row's l moves the loss of every row of its document: d(sum
// f) / dl = (sum f') / n. The outer minimum of kClip has the slope of its smaller side, and of the
// first where both are equal; a side has the slope 0 where it is held at a bound. kCispo: -min(r,
// epsilon_high) A. KL term: kl_weight (1 - exp(q - l)). A row's weight is minus the sum of these,
// with kSequences over n: the gradient of its logits is that of its nll times the weight
// (cross_entropy.h).
// Source: Schulman et al., "Proximal Policy Optimization Algorithms", 2017, equations 6 and 7; Shao
// et al., "DeepSeekMath", 2024, equations 3 and 4 (kSequences, the KL term); Yu et al., "DAPO",
// 2025, equation 8 (kTokens, two epsilons); Liu et al., "Understanding R1-Zero-Like Training", 2025
// (kConstant); MiniMax, "MiniMax-M1", 2025, equation 4 (kCispo); Zheng et al., "Group Sequence
// Policy Optimization", 2025, equations 5 and 7; Prime Intellect, "INTELLECT-2", 2025 (d). Where
// they differ, TRL 1.16 decides: of kCispo epsilon_high is the bound itself, and there is no lower
// one.
#ifndef COXSWAIN_KERNELS_LOSS_POLICY_LOSS_H_
#define COXSWAIN_KERNELS_LOSS_POLICY_LOSS_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/loss/document_loss.h"

namespace coxswain::kernels {

enum class PolicyObjective : int32_t { kImportance, kClip, kCispo };

// Over what the denominator of a step counts: the scored rows of the global batch (DAPO, BNPO), its
// documents (GRPO), or its documents times a constant length (Dr. GRPO).
enum class PolicyNormaliser : int32_t { kTokens, kSequences, kConstant };

struct PolicyLossSpec {
  PolicyObjective objective = PolicyObjective::kClip;
  PolicyNormaliser normaliser = PolicyNormaliser::kTokens;
  bool sequence_ratio = false;  // the ratio is of documents (GSPO)
  double epsilon_low = 0.2;     // >= 0
  double epsilon_high = 0.2;    // >= 0
  double delta = 0;             // of kClip, >= 0; 0: none
  double kl_weight = 0;         // >= 0; 0: there is no KL term
};
bool PolicyLossSupports(const PolicyLossSpec& spec);

// What is reported, summed over documents; as TRL names it. A row is clipped low where its ratio is
// below 1 - epsilon_low and its advantage negative, high where it is above 1 + epsilon_high (of
// kCispo above epsilon_high) and its advantage positive, after delta.
struct PolicySums {
  // Rows; where the ratio is of documents, shares of a document's rows.
  double clipped_low = 0, clipped_high = 0;
  double clippable = 0;  // over which these are: rows, or documents that have rows
  double kl = 0;         // of rows: the KL term without its weight
  double ratio = 0;      // of rows
  double rows = 0;
  double high_max = 0;     // the largest share of a document's rows that is clipped high
  double not_low_max = 0;  // ... that is not clipped low
};
inline constexpr int kPolicySums = 8;

// A document's part of the loss and of the reports, before they are added up.
struct PolicyPart {
  double loss = 0, slope = 0;  // slope: the sum of f' over its rows
  double low = 0, high = 0;    // clipped rows
  double kl = 0, ratio = 0;
};
inline constexpr int kPolicyParts = 6;

struct PolicyLossArgs {
  PolicyLossSpec spec = {};
  int64_t documents = 0;               // S
  const DocumentRows* rows = nullptr;  // [S]; those from `scored` on count, an empty range is none
  // By row of the list:
  const float* nll = nullptr;         // -l
  const float* old_logps = nullptr;   // o
  const float* advantages = nullptr;  // A
  const float* references = nullptr;  // q; null: there is no KL term
  PolicyPart* parts = nullptr;        // [S], scratch
  double* loss = nullptr;             // added to
  PolicySums* reports = nullptr;      // added to, but for the two maxima, which rise
  float* weights = nullptr;           // by row of the list; null: no gradient is wanted
};
void PolicyLoss(const PolicyLossArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_LOSS_POLICY_LOSS_H_
