// Scores of documents: the head that makes them, and their losses.
#ifndef COXSWAIN_KERNELS_LOSS_SCORE_LOSS_H_
#define COXSWAIN_KERNELS_LOSS_SCORE_LOSS_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"
#include "kernels/loss/document_loss.h"

namespace coxswain::kernels {

// The head of reward models and classifiers: scores of documents from one row each.
//   s[i, l] = sum_h x[row_i, h] w[l, h]
// and of its gradient d = c ds: dx[row_i, h] = sum_l d[i, l] w[l, h], dw[l, h] = sum_i d[i, l]
// x[row_i, h]. Sums are in double, in the order of their index, and rounded once.
// Source: transformers modeling_layers.py, GenericForSequenceClassification: a linear without bias
// whose output is taken at the last token of a text.
struct ScoreHeadSpec {
  DType dtype = DType::kFloat32;  // of x, w and dx
  int64_t width = 0;              // H
  int64_t labels = 0;             // L, 1 .. 65535
};
bool ScoreHeadSupports(const ScoreHeadSpec& spec);

struct ScoreHeadForwardArgs {
  ScoreHeadSpec spec = {};
  int64_t documents = 0;          // S
  const int32_t* rows = nullptr;  // [S], rows of x, all different; -1: no document, whose s are 0
  const void* x = nullptr;        // [tokens, H]
  const void* weight = nullptr;   // [L, H]
  float* scores = nullptr;        // [S, L]
};
void ScoreHeadForward(const ScoreHeadForwardArgs& args, Stream* stream);

struct ScoreHeadBackwardArgs {
  ScoreHeadSpec spec = {};
  int64_t documents = 0;
  const int32_t* rows = nullptr;
  const void* x = nullptr;
  const void* weight = nullptr;
  const float* dscores = nullptr;  // [S, L]
  const float* scale = nullptr;    // c, in device memory
  void* dx = nullptr;              // the rows of documents are written, the others left
  float* dweight = nullptr;        // [L, H]; null: the head is frozen
  bool accumulate = false;         // dweight is added to
};
void ScoreHeadBackward(const ScoreHeadBackwardArgs& args, Stream* stream);

// Losses of scores s [S, L] of documents, and their gradients. With v what a document brings:
//   kBradleyTerry  of pairs, L 1: -log sigmoid(s_c - s_d - v_c) + k (s_c + s_d)^2
//                  v_c the margin of the pair, of its chosen document; k the centre's factor
//   kSingleLabel   log sum_l e^s_l - s_v                       v the number of the class
//   kMultiLabel    mean over l of -v_l log sigmoid(s_l) - (1 - v_l) log sigmoid(-s_l)
//   kRegression    mean over l of (s_l - v_l)^2
// Source: Ouyang et al., "Training language models to follow instructions", 2022, equation 1;
// Touvron et al., "Llama 2", 2023, equation 2 (the margin); Eisenstein et al., "Helping or
// Herding?", 2023, section 2 (the centre); TRL reward_trainer.py, compute_loss; transformers
// loss_utils.py, ForSequenceClassificationLoss, of the others.
enum class ScoreTerm : int32_t { kBradleyTerry, kSingleLabel, kMultiLabel, kRegression };

struct ScoreLossSpec {
  ScoreTerm type = ScoreTerm::kBradleyTerry;
  int64_t labels = 1;  // L
  double centre = 0;   // k, >= 0
};
// L 1 of pairs, at least 2 of single labels, else at least 1.
constexpr bool ScoreLossSupports(const ScoreLossSpec& spec) {
  if (spec.type == ScoreTerm::kBradleyTerry) return spec.labels == 1 && spec.centre >= 0;
  return spec.labels >= (spec.type == ScoreTerm::kSingleLabel ? 2 : 1);
}

// Numbers that every document brings.
constexpr int64_t ScoreValues(const ScoreLossSpec& spec) {
  return spec.type == ScoreTerm::kMultiLabel || spec.type == ScoreTerm::kRegression ? spec.labels
                                                                                    : 1;
}

// Reports: of pairs the scores of chosen and rejected as rewards, and whether the first is higher;
// of labels how many documents there are and of what share the prediction is right: of its class,
// of its labels, which are predicted where s > 0; of regressions the mean of s and of v as rewards.
struct ScoreLossArgs {
  ScoreLossSpec spec = {};
  int64_t documents = 0;              // S, even where there are pairs: 2 i and 2 i + 1
  const int32_t* rows = nullptr;      // [S]; -1: no document
  const float* scores = nullptr;      // [S, L]
  const float* values = nullptr;      // [S, ScoreValues]
  double* loss = nullptr;             // added to: the sum over pairs or documents
  PreferenceSums* reports = nullptr;  // added to
  float* dscores = nullptr;           // [S, L], 0 where there is no document; null: not wanted
};
void ScoreLoss(const ScoreLossArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_LOSS_SCORE_LOSS_H_
