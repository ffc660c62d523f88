// Losses of preference tuning: functions of the log-probabilities of documents. A document has rows
// in the list of rows with a target: those of its prompt, if any, then those that are scored. With
// s the sum of the log-probabilities of a document's scored rows, n their number, r the same sum
// under a reference (0 without), and c, d the chosen and the rejected document of a pair:
//   D = (s_c - r_c) - (s_d - r_d);  N = (s_c - r_c) / n_c - (s_d - r_d) / n_d
//   m = s_c / n_c - s_d / n_d;  e the label smoothing, b the beta
//   kSigmoid        -log sigmoid(b D)
//   kSmoothed       -(1 - e) log sigmoid(b D) - e log sigmoid(-b D)
//   kRobust         (-(1 - e) log sigmoid(b D) + e log sigmoid(-b D)) / (1 - 2 e)
//   kHinge          max(0, 1 - b D)
//   kIpo            (N - 1 / (2 b))^2
//   kSigmoidMean    -log sigmoid(b N)
//   kApoZero        1 - sigmoid(b (s_c - r_c)) + sigmoid(b (s_d - r_d))
//   kMargin         kSmoothed with m - margin / b in the place of D
//   kOdds           -b log sigmoid(o(s_c / n_c) - o(s_d / n_d)), o(l) = l - log(1 - e^l)
//   kNll            -s_c, over its own denominator;  kNllWithPrompt: the prompt's rows too
// Of a single document with a label, w the weight of its label and k the KL term of the step:
//   kKto            w (1 - sigmoid(+-b (s - r - k)))       + desirable, - undesirable
//   kApoZeroRecord  w (1 - sigmoid(+-b (s - r)))
// The gradient of a row's logits is that of its nll times its weight (cross_entropy.h).
// Source: Rafailov et al., "Direct Preference Optimization", 2023, equation 7; Mitchell, "A note on
// DPO with noisy preferences", 2023 (kSmoothed); Chowdhury et al., "Provably Robust DPO", 2024;
// Azar et al., "A General Theoretical Paradigm to Understand Learning from Human Preferences", 2023
// (kIpo; TRL divides by lengths); D'Oosterlinck et al., "Anchored Preference Optimization", 2024;
// Meng et al., "SimPO", 2024, equation 6; Hong et al., "ORPO", 2024, equation 6; Ethayarajh et al.,
// "KTO", 2024, equation 8. Where they differ, TRL 1.16 decides.
#ifndef COXSWAIN_KERNELS_LOSS_DOCUMENT_LOSS_H_
#define COXSWAIN_KERNELS_LOSS_DOCUMENT_LOSS_H_

#include <cstdint>

#include "kernels/device.h"

namespace coxswain::kernels {

enum class DocumentTerm : int32_t {
  kSigmoid,
  kSmoothed,
  kRobust,
  kHinge,
  kIpo,
  kSigmoidMean,
  kApoZero,
  kMargin,
  kOdds,
  kNll,
  kNllWithPrompt,
  kKto,
  kApoZeroRecord,
};

inline constexpr int kMostDocumentTerms = 4;

struct DocumentLossSpec {
  bool pairs = true;  // documents 2 i and 2 i + 1 are chosen and rejected; else each has a label
  int32_t terms = 0;  // 1 .. kMostDocumentTerms
  DocumentTerm type[kMostDocumentTerms] = {};
  double weight[kMostDocumentTerms] = {};
  double beta = 0.1, label_smoothing = 0, margin = 0;
  double desirable_weight = 1, undesirable_weight = 1;
  bool mean_rewards = false;  // rewards and log-probabilities of means, else of sums
};
// All terms of pairs or all of records, e < 1/2, b > 0.
bool DocumentLossSupports(const DocumentLossSpec& spec);

// Rows [begin, end) of the list; those from `scored` on are scored. begin < 0: no document.
struct DocumentRows {
  int32_t begin = -1, scored = -1, end = -1;
};

// s of each document, and the same sum of all its rows.
struct DocumentSums {
  double scored = 0, all = 0;
};

struct SumDocumentsArgs {
  int64_t documents = 0;               // S
  const DocumentRows* rows = nullptr;  // [S]
  const float* nll = nullptr;          // by row of the list: minus its log-probability
  DocumentSums* sums = nullptr;        // [S]; 0 where there is no document
};
void SumDocuments(const SumDocumentsArgs& args, Stream* stream);

// What is reported of documents, summed; as TRL names it. Rewards are b (s - r).
struct PreferenceSums {
  double rewards_chosen = 0, rewards_rejected = 0;
  double accuracies = 0;  // pairs whose chosen document has the higher reward
  double logps_chosen = 0, logps_rejected = 0;
  double chosen = 0, rejected = 0;  // documents; by label where there are no pairs
};
inline constexpr int kPreferenceSums = 7;

// Scalars of a step, in device memory.
struct DocumentScalars {
  double nll_ratio = 0;  // the loss denominator over that of the nll term
  double kl = 0;         // k
};

struct DocumentLossArgs {
  DocumentLossSpec spec = {};
  int64_t documents = 0;                     // S, even where there are pairs
  const DocumentRows* rows = nullptr;        // [S]
  const DocumentSums* sums = nullptr;        // [S], of the policy
  const DocumentSums* references = nullptr;  // [S]; null: all 0
  const float* labels = nullptr;             // [S], > 0 desirable, 0 undesirable; null: pairs
  const DocumentScalars* scalars = nullptr;
  double* coefficients = nullptr;     // [S], scratch: minus the derivative by s
  double* loss = nullptr;             // added to: the sum over pairs or documents
  PreferenceSums* reports = nullptr;  // added to
  float* weights = nullptr;           // by row of the list; null: no gradient is wanted
};
void DocumentLoss(const DocumentLossArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_LOSS_DOCUMENT_LOSS_H_
