// A curriculum of made-up bins: a pure function of the step, without tokens.
#ifndef COXSWAIN_TESTS_SIM_SYNTHETIC_CURRICULUM_H_
#define COXSWAIN_TESTS_SIM_SYNTHETIC_CURRICULUM_H_

#include <string>
#include <vector>

#include "common/hash.h"
#include "controller/driver/curriculum.h"

namespace coxswain::sim {

struct SyntheticShape {
  int64_t steps = 12;
  int64_t bins_per_step = 4;
  int64_t eval_bins = 3;
  int64_t tokens_per_bin = 0;  // of payload, 0: commands carry no token ids
};

class SyntheticCurriculum : public driver::Curriculum {
 public:
  explicit SyntheticCurriculum(SyntheticShape shape)
      : shape_(shape), recipe_hash_(Sha256("recipe" + std::to_string(shape.steps))) {}

  const std::string& recipe_hash() const override { return recipe_hash_; }
  int64_t total_steps() const override { return shape_.steps; }
  int64_t pass_of_step(int64_t) const override { return 0; }
  double passes_after(int64_t finished_steps) const override {
    return static_cast<double>(finished_steps) / static_cast<double>(shape_.steps);
  }
  double learning_rate(int64_t step) const override { return 1e-3 / static_cast<double>(step + 1); }
  std::vector<driver::BinSize> step_bins(int64_t step) const override {
    std::vector<driver::BinSize> bins;
    for (int64_t i = 0; i < shape_.bins_per_step; ++i) {
      const int64_t id = step * shape_.bins_per_step + i;
      bins.push_back({.id = id, .tokens = 100 + (id * 37) % 50, .targets = 60 + id % 7});
    }
    return bins;
  }
  std::vector<driver::BinSize> eval_bins() const override {
    std::vector<driver::BinSize> bins;
    for (int64_t i = 0; i < shape_.eval_bins; ++i) {
      bins.push_back({.id = i, .tokens = 80, .targets = 40});
    }
    return bins;
  }
  void FillTrain(int64_t step, int64_t begin, int64_t end, v1::Bins* out) const override {
    Fill(step_bins(step), begin, end, out);
  }
  void FillEval(int64_t begin, int64_t end, v1::Bins* out) const override {
    Fill(eval_bins(), begin, end, out);
  }
  v1::DatasetSummary summary() const override {
    v1::DatasetSummary summary;
    summary.set_documents(shape_.steps * shape_.bins_per_step);
    summary.set_eval_documents(2 * shape_.eval_bins);
    return summary;
  }
  std::vector<std::string> warnings() const override { return {}; }

 private:
  void Fill(const std::vector<driver::BinSize>& bins, int64_t begin, int64_t end,
            v1::Bins* out) const {
    for (int64_t i = begin; i < end; ++i) {
      const driver::BinSize& bin = bins[static_cast<size_t>(i)];
      out->add_bin_ids(bin.id);
      out->add_documents_per_bin(1);
      out->add_document_lengths(static_cast<int32_t>(bin.targets));
      if (shape_.tokens_per_bin == 0) continue;
      out->mutable_token_ids()->append(static_cast<size_t>(shape_.tokens_per_bin) * 4, '\1');
      out->mutable_targets()->append(static_cast<size_t>(shape_.tokens_per_bin) / 8, '\1');
    }
  }

  const SyntheticShape shape_;
  const std::string recipe_hash_;
};

}  // namespace coxswain::sim

#endif  // COXSWAIN_TESTS_SIM_SYNTHETIC_CURRICULUM_H_
