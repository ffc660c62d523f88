// What a rank of the simulator keeps on its device, and what the recipe makes of it: parameters are
// a hash of every batch trained, in order, so a batch that is missing, comes twice or comes late
// shows in them, in the loss and in every checkpoint.
#ifndef COXSWAIN_TESTS_SIM_FAKES_FAKE_MODEL_H_
#define COXSWAIN_TESTS_SIM_FAKES_FAKE_MODEL_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace coxswain::sim {

uint64_t Mix(uint64_t state, uint64_t value);
double Unit(uint64_t bits);  // in [0, 1)

struct FakeModel {
  uint64_t parameters = 1;
  int64_t steps = 0;

  // One step over the bins of all ranks, ascending.
  void Train(std::span<const int64_t> batch);
  std::string Serialize() const;
  static FakeModel Parse(const std::string& text);
};

// The parameters after so many steps of a SyntheticCurriculum of `bins_per_step` in which every bin
// came once and in order.
class Lineage {
 public:
  explicit Lineage(int64_t bins_per_step) : bins_per_step_(bins_per_step) {}
  uint64_t ParametersAfter(int64_t steps);

 private:
  const int64_t bins_per_step_;
  std::vector<FakeModel> models_ = {FakeModel()};  // by steps
};

}  // namespace coxswain::sim

#endif  // COXSWAIN_TESTS_SIM_FAKES_FAKE_MODEL_H_
